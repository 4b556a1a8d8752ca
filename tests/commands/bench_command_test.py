import dataclasses
import json

import numpy as np
import pytest

from keras_sparse.__main__ import main
from keras_sparse.commands import bench_steps

TINY = ["--scale", "0.001", "--batch-size", "8", "--turns", "1"]


def test_prints_medians_and_the_machine_and_draws(tmp_path, capsys):
    picture = tmp_path / "bench.svg"
    options = ["--workloads", "bags", "keys", "--picture", str(picture)]
    assert main(["bench", *TINY, *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Batches of 8 samples, Adagrad")
    assert lines[3].startswith("500 x 32, 1 to 20 ids summed")
    for line in lines[3:7]:
        ours, theirs, times = map(float, line.split()[-3:])
        assert times == pytest.approx(theirs / ours, rel=0.1, abs=0.06)  # of one decimal
    assert "Keras 3." in lines[-1]
    assert picture.read_text().startswith("<?xml")


def test_prints_json_of_what_is_asked_for(capsys):
    assert main(["bench", *TINY, "--workloads", "keys", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (result,) = found["results"]
    assert result["workload"] == "keys"
    assert all(0 < result["seconds"][peer]["step"] < 60 for peer in ("keras_sparse", "keras"))
    assert found["machine"]["cores"] > 0


def test_times_several_tables():
    workload = dataclasses.replace(bench_steps.WORKLOADS["tables"], num_tables=2, rows=50)
    seconds = bench_steps.measure(workload, batch_size=8, num_turns=1)
    assert seconds.keys() == {"keras_sparse", "keras"}


@pytest.mark.parametrize("name", bench_steps.WORKLOADS)
def test_ids_are_those_of_the_workload(name):
    workload = bench_steps.WORKLOADS[name]
    first, *_ = batches = workload.batches(100)
    assert len(batches) == bench_steps.NUM_BATCHES
    ids = np.concatenate([np.ravel(getattr(each, "flat_values", each)) for each in batches])
    values, counts = np.unique(ids, return_counts=True)
    assert counts.max() > 10 * np.median(counts)  # some ids are hot
    if workload.has_keys:
        assert values.min() < -(2**60) < 2**60 < values.max()
    else:
        assert 0 <= values.min() <= values.max() < workload.rows
    if workload.is_ragged:
        assert {*np.unique(first.row_lengths())} <= {*range(1, workload.hotness + 1)}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--batch-size", "0"], "`batch_size` must be above 0"),
        (["--turns", "-1"], "`turns` must be above 0"),
        (["--scale", "0.00001"], "`rows` must be above 0"),
        (["--scale", "nan"], "`scale` must be above 0 and finite"),
        (["--scale", "inf"], "`scale` must be above 0 and finite"),
        (["--picture", "no_such_folder/p.png"], "in a folder that is there"),
        (["--picture", "p.foo"], "must be a file that ends in one of"),
    ],
)
def test_says_what_it_does_not_take(options, words, capsys):
    assert main(["bench", *TINY, *options]) == 2
    printed = capsys.readouterr()
    assert words in printed.err
    assert printed.out == ""
