import sys

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import assume
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies

import keras_sparse
from keras_sparse.storage import miss_curve

STEPS = strategies.lists(strategies.sets(strategies.integers(0, 12), max_size=8), max_size=20)
IDS = np.array([1, 2, 1, 3, 2, 1, 4, 1])  # distances, a step an id: 1, 2, 2, 1


def curve_of(ids=IDS, batch_size=1, **kwargs):
    return miss_curve(ids, batch_size, verbose=False, **kwargs)


def misses_of_a_tier(steps, capacity):
    """Misses of a tier that keeps the `capacity` rows used last, of one step the greater keys."""
    tier, known, misses = [], set(), 0
    for step in steps:
        misses += len((step & known) - set(tier))
        tier = sorted(step, reverse=True) + [key for key in tier if key not in step]
        tier = tier[:capacity]
        known |= step
    return misses


@settings(deadline=None, derandomize=True, database=None)
@given(STEPS)
def test_agrees_with_a_tier_of_each_size(steps):
    touches, distinct = sum(map(len, steps)), len(set().union(*steps))
    assume(touches > distinct)
    curve = curve_of([list(step) for step in steps], None)
    assert (curve.steps, curve.touches, curve.distinct) == (len(steps), touches, distinct)
    for rows in range(distinct + 2):
        misses = misses_of_a_tier(steps, rows)
        assert curve.misses_per_step(rows) * len(steps) == pytest.approx(misses)
        assert curve.hit_rate_at(rows) == pytest.approx(1 - misses / (touches - distinct))


def test_says_where_the_hit_rate_rises():
    curve = curve_of()
    assert curve.capacity_rows.tolist() == [0, 2, 3]
    assert curve.hit_rate.tolist() == [0, 0.5, 1]
    assert (curve.touches, curve.distinct, curve.repeated) == (8, 4, 4)
    assert [curve.rows_for(rate) for rate in (0.1, 0.5, 0.51, 1)] == [2, 2, 3, 3]
    assert curve.misses_per_step(2) == 2 / 8


def test_ids_of_one_step_count_once():
    curve = curve_of([[1, 1, 2], [1, 1, 1]], None)
    assert (curve.steps, curve.touches, curve.distinct) == (2, 3, 2)


def test_takes_an_array_and_its_batches_alike():
    batches = tf.data.Dataset.from_tensor_slices(IDS).batch(2)
    for other in (batches, [[1, 2], [1, 3], [2, 1], [4, 1]]):
        assert str(curve_of(other, None)) == str(curve_of(IDS, 2))


def test_bytes_have_room_for_what_leaves_and_what_comes():
    # 3 rows, and 0 misses and half a new row a step; a 16th leaves at once.
    assert curve_of().bytes_for(1.0, output_dim=8, num_slots=1) == -(-(3.5 * 16 * 84) // 15)
    # 14 bytes of a row are 16 in whole words.
    in_16_bits = curve_of().bytes_for(1.0, 7, 1, row_dtype="bfloat16", slot_dtype="float32")
    assert in_16_bits == -(-(3.5 * 16 * (16 + 28 + 20)) // 15)
    # At most as much room again as the rows have.
    curve = curve_of([[*range(100)], [*range(99, 200)]], None)
    assert curve.rows_for(1.0) == 1
    assert curve.bytes_for(1.0, 8, 0) == -(-(2 * 16 * 52) // 15)


def zipf(num_ids=400_000):
    return np.random.default_rng(3).zipf(1.1, num_ids) % 10**9


def test_a_sample_tells_nearly_the_same():
    whole, part = (curve_of(zipf(), 500, sample_rate=rate) for rate in (1.0, 0.2))
    assert whole.distinct == pytest.approx(part.distinct, rel=0.02)
    assert (whole.touches, whole.steps) == (part.touches, part.steps)
    for rows in np.geomspace(whole.distinct / 100, whole.distinct, 20).astype(int):
        assert part.hit_rate_at(rows) == pytest.approx(whole.hit_rate_at(rows), abs=0.04)
    assert "estimated from 0.2 of them" in str(part)


def test_a_sample_of_all_is_exact():
    ids = zipf(5000)
    nearly_all = curve_of(ids, 100, sample_rate=1 - 2**-53)
    np.testing.assert_array_equal(nearly_all.capacity_rows, curve_of(ids, 100).capacity_rows)


def test_prints_a_table(capsys):
    assert miss_curve(IDS, 1).steps == 8
    assert capsys.readouterr().out == (
        "8 steps, 8 touches of 4 rows.\n"
        "4 touches are of a row that is there; a miss of one is a read.\n"
        "rows in first tier   of all rows    hit rate   misses a step\n"
        "                 1         25.0%       0.00%            0.50\n"
        "                 2         50.0%      50.00%            0.25\n"
        "                 4        100.0%     100.00%            0.00\n"
    )
    curve_of()
    assert capsys.readouterr().out == ""


def test_plots_the_curve():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    pyplot.close("all")
    _, ax = pyplot.subplots()
    curve = curve_of(plot=True)
    assert len(pyplot.get_fignums()) == 2
    assert curve.plot(ax) is ax
    (line,) = ax.lines
    assert line.get_xydata().tolist() == [[1, 0], [2, 0.5], [3, 1]]
    pyplot.close("all")


def test_works_without_matplotlib_but_for_the_plot(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"`plot` needs matplotlib.*pip install matplotlib"):
        curve_of([[0.5]], None, plot=True)  # before a look at the ids
    assert str(curve_of())


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"ids": []}, ValueError, "`ids` must hold at least one id. Received: none in 0 steps"),
        ({"ids": [[], []]}, ValueError, "must hold at least one id. Received: none in 2 steps"),
        ({"ids": [[1, 2], [3]]}, ValueError, "must touch a row in two steps.*3 touches in 2 steps"),
        ({"sample_rate": 0}, ValueError, "`sample_rate` must be above 0 and at most 1"),
        ({"sample_rate": 1.1}, ValueError, "Received: sample_rate=1.1"),
        ({"sample_rate": float("nan")}, ValueError, "Received: sample_rate=nan"),
        ({"sample_rate": "1"}, TypeError, "`sample_rate` must be a number. Received: .*'1'"),
        ({"sample_rate": 1e-9}, ValueError, "or a higher `sample_rate`. .*sample_rate=1e-09"),
        ({"verbose": 2}, TypeError, "`verbose` must be True or False. Received: verbose=2"),
        ({"plot": None}, TypeError, "`plot` must be True or False"),
    ],
)
def test_refuses_what_gives_no_curve(arguments, error, words):
    with pytest.raises(error, match=words):
        miss_curve(**{"ids": [[1], [1]], **arguments})


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda curve: curve.hit_rate_at(-1), ValueError, "`rows` must not be below 0"),
        (lambda curve: curve.misses_per_step(0.5), TypeError, "`rows` must be an integer"),
        (lambda curve: curve.rows_for(95), ValueError, "above 0 and at most 1.*hit_rate=95"),
        (lambda curve: curve.bytes_for(1.0, 0, 1), ValueError, "`output_dim` must be above 0"),
        (lambda curve: curve.bytes_for(1.0, 4, -1), ValueError, "`num_slots` must not be below 0"),
        (
            lambda curve: curve.bytes_for(1.0, 4, 0, "int8"),
            ValueError,
            "`row_dtype` must be one of",
        ),
    ],
)
def test_refuses_what_a_curve_cannot_say(ask, error, words):
    with pytest.raises(error, match=words):
        ask(curve_of())


def test_a_table_reads_what_the_curve_says(tmp_path, monkeypatch):
    # Or some rows are read while they still wait to be written.
    monkeypatch.setenv("KERAS_SPARSE_EVICTION_THREADS", "0")
    dim = 256
    ids = (20_000 ** np.random.default_rng(0).random((200, 400))).astype(np.int64)
    curve = curve_of(ids)
    size = curve.bytes_for(0.7, dim, 0)
    storage = keras_sparse.StorageOption("DRAM_SSDHASH", tmp_path, [size])
    table = keras_sparse.EmbeddingVariable(None, dim, storage=storage)
    optimizer = keras_sparse.optimizers.SGD(0.1)
    for step in ids:
        grads = tf.IndexedSlices(tf.ones((400, dim)), tf.constant(step), (20_000, dim))
        optimizer.apply([grads], [table])
    read = table.stats()["tiers"]["SSDHASH"]["hits"] / len(ids)
    # The store reads at least what a tier would miss that had also the room which is here for what
    # leaves and comes.
    rows = curve.rows_for(0.7)
    assert curve.misses_per_step(rows * 5 // 4) <= read
    assert read <= curve.misses_per_step(rows)
