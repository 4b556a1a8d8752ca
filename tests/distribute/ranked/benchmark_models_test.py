import pathlib
import statistics
import sys

import numpy as np
import pytest

from keras_sparse import distribute
from keras_sparse.distribute.ranks.collectives import gather_objects

# The benchmarks lie beside the package, not in it.
sys.path.insert(0, str(pathlib.Path(__file__).parents[3]))

from benchmarks import synthetic_models
from benchmarks.synthetic.measure import measure
from benchmarks.synthetic.models import SyntheticModel
from benchmarks.synthetic.models import TableGroup
from benchmarks.synthetic.training import Training

MODEL = SyntheticModel(
    "small",
    (TableGroup(2, 50, 4, (1, 3)), TableGroup(4, 20, 8)),
    stride=2,
    num_numerical=3,
    units=(8,),
    gpu_ms={},
)


def options_of(*arguments):
    batch = ["--batch_size", str(6 * distribute.size()), "--num_data_batches", "2"]
    steps = ["--num_steps", "2", "--warm_steps", "1", "--no-bandwidth", "--optimizer", "sgd"]
    options = synthetic_models.parser().parse_args([*batch, *steps, *arguments])
    synthetic_models.check(options)
    return options


@pytest.mark.parametrize("dp_input", ["--dp_input", "--no-dp_input"])
def test_a_synthetic_model_has_the_losses_of_whole_keras_tables(dp_input):
    ours, stock = (
        Training(api, MODEL, options_of(dp_input, "--strategy", "memory_balanced"))
        for api in ("ours", "keras")
    )
    rows = ours.tables.layer.get_weights(all_ranks=True)
    for table, of_table in zip(stock.tables.variables, rows, strict=True):
        table.assign(of_table)
    ours.tables.make_rows()
    losses = [[training.step(training.batch(i)) for i in range(3)] for training in (ours, stock)]
    np.testing.assert_allclose(*losses, rtol=1e-4)


def test_all_ranks_get_what_was_measured():
    facts = measure(MODEL, options_of("--api", "ours", "keras", "dense"))
    assert facts["num_ranks"] == len(facts["memory"]["peak_bytes"]) == distribute.size()
    of_ranks = gather_objects(facts["apis"]["ours"]["times_ms"], "test.times")
    assert all(times == of_ranks[0] for times in of_ranks)
    assert statistics.median(of_ranks[0]) == pytest.approx(facts["apis"]["ours"]["iteration_ms"])
