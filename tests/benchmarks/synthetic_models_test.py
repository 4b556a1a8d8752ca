import dataclasses
import json
import re
import shutil

import numpy as np
import pytest

from benchmarks import synthetic_models
from benchmarks.synthetic.batches import draw_batch
from benchmarks.synthetic.batches import power_law_ids
from benchmarks.synthetic.measure import missing_disk
from benchmarks.synthetic.models import MODELS
from benchmarks.synthetic.training import Training

# Of the source, and what its config adds up to: tables, inputs, GiB, ids and floats a sample, width
# of the concatenation, parameters of the dense layers.
TOTALS = {
    "tiny": (55, 58, 4.19, 85, 1_032, 672, 207_873),
    "small": (107, 116, 26.29, 377, 8_544, 2_512, 1_456_129),
    "medium": (311, 337, 206.19, 1_611, 101_952, 17_280, 3_244_033),
    "large": (612, 669, 773.79, 6_312, 404_096, 36_608, 12_333_057),
    "jumbo": (1022, 1097, 3109.46, 16_022, 2_054_272, 118_400, 15_290_369),
    "criteo": (26, 26, 1.24, 26, 3_328, 3_328, 1_875_457),
}
SMALL = ["--batch_size", "64", "--num_data_batches", "2", "--num_steps", "3", "--warm_steps", "1"]
SMALL += ["--no-bandwidth", "--scale", "1e-4"]


def options_of(*arguments):
    options = synthetic_models.parser().parse_args([*SMALL, *arguments])
    synthetic_models.check(options)
    return options


def thinned(name):
    """A model with one or two tables of each kind, of few rows."""
    model = MODELS[name]
    groups = [
        dataclasses.replace(each, count=min(each.count, 2), rows=min(each.rows, 50))
        for each in model.groups
    ]
    return dataclasses.replace(model, groups=tuple(groups), units=(8, 4))


def losses_of(training, num_steps):
    return [training.step(training.batch(i)) for i in range(num_steps)]


def test_all_models_are_those_of_the_source():
    assert TOTALS.keys() == MODELS.keys()


@pytest.mark.parametrize("name", TOTALS)
def test_a_model_has_the_totals_of_the_source(name):
    model = MODELS[name]
    found = (len(model.tables), len(model.inputs), round(4 * model.num_elements / 2**30, 2))
    floats = sum(model.gathered_bytes().values()) // 4
    found += (model.ids_per_sample, floats, model.concat_width, model.dense_params)
    assert found == TOTALS[name]


@pytest.mark.parametrize("num_rows", [10, 1000])
@pytest.mark.parametrize("alpha", [0.0, 1.0, 1.05, 2.0])
def test_ids_follow_the_power_law(alpha, num_rows):
    count = 200_000
    ids = power_law_ids(np.random.default_rng(1), num_rows, (count,), alpha)
    edges = np.arange(1, num_rows + 2, dtype=np.float64)
    below = np.log(edges) if alpha == 1 else edges ** (1 - alpha) / (1 - alpha)
    expected = count * np.diff(below) / (below[-1] - below[0])
    found = np.bincount(ids, minlength=num_rows)
    assert len(found) == num_rows
    # Chi-squared, those of less than one expected id aside: as many as the ids, on the average.
    often = expected > 1
    assert np.sum((found - expected)[often] ** 2 / expected[often]) < 1.2 * num_rows + 20
    assert found[~often].sum() <= 3 * expected[~often].sum() + 5


@pytest.mark.parametrize(("num_rows", "first"), [(1_000, 0.117), (10**6, 0.0683), (10**8, 0.0566)])
def test_the_first_id_is_as_frequent_as_the_source_says(num_rows, first):
    ids = power_law_ids(np.random.default_rng(2), num_rows, (100, 1000), 1.05)
    assert ids.min() == 0
    assert num_rows // 2 < ids.max() < num_rows
    assert np.mean(ids == 0) == pytest.approx(first, abs=0.0025)


def test_ranks_draw_parts_of_the_same_batch():
    model = thinned("tiny")
    ids, numerical, labels = draw_batch(model, 1, 8, 1.05, slice(0, 8))
    splits = np.cumsum([8 * hotness for _, hotness in model.inputs])[:-1]
    whole = [part.reshape(8, -1) for part in np.split(ids, splits)]
    theirs, their_numerical, their_labels = draw_batch(model, 1, 8, 1.05, slice(4, 8))
    np.testing.assert_array_equal(theirs, np.concatenate([each[4:].ravel() for each in whole]))
    np.testing.assert_array_equal(their_numerical, numerical[4:])
    np.testing.assert_array_equal(their_labels, labels[4:])
    own, _, _ = draw_batch(model, 1, 8, 1.05, slice(4, 8), [2, 0])
    np.testing.assert_array_equal(own, np.concatenate([whole[2].ravel(), whole[0].ravel()]))


@pytest.mark.parametrize("name", MODELS)
def test_both_ways_have_the_same_loss_of_the_same_rows(name):
    model, options = thinned(name), options_of("--optimizer", "sgd")
    ours, stock = (Training(api, model, options) for api in ("ours", "keras"))
    for table, rows in zip(stock.tables.variables, ours.tables.layer.get_weights(), strict=True):
        table.assign(rows)
    ours.tables.make_rows()
    assert ours.loss(ours.batch(0)) == stock.loss(stock.batch(0))
    if name == "tiny":
        losses = [losses_of(training, 4) for training in (ours, stock)]
        np.testing.assert_allclose(*losses, rtol=1e-4)
        assert len(set(losses[0])) == 4


def test_batches_come_in_turn_or_once():
    ids = {}
    for given in (2, 0):
        options = options_of("--num_data_batches", str(given))
        training = Training("ours", thinned("criteo"), options)
        ids[given] = [training.batch(i)[0].numpy() for i in range(3)]
    np.testing.assert_array_equal(ids[2], [*ids[0][:2], ids[0][0]])
    assert np.any(ids[0][2] != ids[0][0])


def test_a_disk_changes_no_loss(tmp_path):
    model = dataclasses.replace(thinned("small"), stride=3)
    tiers = ("--storage", "DRAM_SSDHASH", "--storage_path", str(tmp_path), "--first_tier", "4kB")
    memory, disk = (Training("ours", model, options_of(*each)) for each in ((), tiers))
    disk.tables.make_rows()
    assert disk.tables.bytes()[1] > 0
    assert losses_of(memory, 3) == losses_of(disk, 3)


def test_all_ways_stand_side_by_side(tmp_path):
    path = tmp_path / "found.json"
    ways = ["--api", "ours", "keras", "dense"]
    text = synthetic_models.main([*SMALL, "--model", "criteo", *ways, "--json", str(path)])
    assert "| keras_sparse | " in text
    assert "| keras.layers.Embedding | " in text
    facts = json.loads(path.read_text())
    assert facts["model"] == "criteo"
    assert facts["options"]["batch_size"] == 64
    assert sum(facts["plan"]["rank_bytes"]) == 26 * 10 * 128 * 4 * 2
    gathered = [found["gathered_rate"] * found["iteration_ms"] for found in facts["apis"].values()]
    assert gathered == pytest.approx([64 * 3328 * 4e-6, 64 * 3328 * 4e-6, 0])
    for found in facts["apis"].values():
        assert len(found["times_ms"]) == 3
        assert found["samples_per_second"] == pytest.approx(64e3 / found["iteration_ms"])
        assert 0 < found["first_loss"] < 10
    assert min(facts["memory"]["peak_bytes"]) > 2**20


def test_plans_are_made_without_tables(tmp_path):
    path = tmp_path / "plans.json"
    budget = ["--memory_budget", "500MB"]
    text = synthetic_models.main(["--dry_run", "--model", "tiny", *budget, "--json", str(path)])
    facts = json.loads(path.read_text())
    assert list(facts["plans"]) == ["32", "64", "128"]
    assert list(facts["without"]) == ["8", "16"], "8.99 GB are more than 16 x 500 MB"
    total = 2 * facts["table_bytes"]
    for num_ranks, plan in facts["plans"].items():
        assert len(plan["rank_bytes"]) == len(plan["rank_seconds"]) == int(num_ranks)
        assert total <= sum(plan["rank_bytes"])
        assert max(plan["rank_bytes"]) <= 500e6
    assert "| 16 | no plan |" in text
    assert "| 3.2 ms |" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--batch_size", "0"], "`batch_size` must be above 0. Received: batch_size=0"),
        (["--scale", "2"], "`--scale` must be above 0 and at most 1.*Received: scale=2.0"),
        (["--alpha", "-1"], "`--alpha` must not be below 0; take 0.*Received: alpha=-1.0"),
        (["--ranks", "8"], r"`--ranks` must come with --dry_run.*Received: ranks=\[8\]"),
        (["--strategy", "random"], "`strategy` must be one of.*Received: strategy='random'"),
        (
            ["--storage", "DRAM_SSDHASH", "--api", "keras"],
            "`--storage` must be DRAM or HBM with.*leave it out. Received: storage='DRAM_SSDHASH'",
        ),
        (
            ["--dry_run", "--ranks", "7"],
            "multiple of the number of ranks: take 65534. Received: batch_size=65536 on 7 ranks",
        ),
        (
            ["--scale", "1e-4", "--memory_budget", "1kB"],
            "`memory_budget` of all.*Received: memory",
        ),
        (["--model", "jumbo"], "There must be room.*smaller `--scale`.*Received: rank 0 needs"),
        (["--storage", "DRAM_SSDHASH", "--scale", "1e-4"], "`storage_path` must be a folder"),
    ],
)
def test_refuses(arguments, words):
    with pytest.raises((ValueError, TypeError), match=words):
        synthetic_models.main(["--no-bandwidth", *arguments])


def test_a_disk_without_room_is_refused(tmp_path):
    free = shutil.disk_usage(tmp_path).free
    assert missing_disk(free // 2, str(tmp_path / "made")) is None
    assert re.fullmatch(
        f"[0-9,]+ bytes in '{tmp_path}', with [0-9,]+ free", missing_disk(2 * free, str(tmp_path))
    )
