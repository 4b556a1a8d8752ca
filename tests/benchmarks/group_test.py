import argparse
import re

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import group
from benchmarks.peers import floor_in_tensorflow

OPTIONS = argparse.Namespace(
    batch_size=8, rounds=1, steps=6, most_seconds=1, most_one_by_one=2, threads=2, eager=False
)
GRADS = [tf.fill((OPTIONS.batch_size, width), 0.5) for width in group.widths_of(2)]
WAYS = (group.GROUP, group.OURS, group.KERAS)


@pytest.fixture
def built(monkeypatch):
    """What `group.build` returned last."""
    kept, build = [], group.build

    def build_and_keep(*arguments):
        kept[:] = build(*arguments)
        return kept

    monkeypatch.setattr(group, "build", build_and_keep)
    return kept


@pytest.mark.parametrize(
    ("kinds", "column", "tables"), [(list(group.KINDS), "forward", 1), (["ragged"], "adagrad", 3)]
)
def test_shows_each_way_what_a_table_costs_and_the_floor(kinds, column, tables, in_this_process):
    if tables == 1:  # else a process a row
        in_this_process(group)
    small = ["--batch-size", "8", "--rounds", "1", "--steps", "2", "--most-one-by-one", "1"]
    text = group.main(
        [*small, "--tables", str(tables), "--kinds", *kinds, "--columns", column],
    )
    rows = [re.split(r" *\| *", line)[1:-1] for line in text.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if row[0] != "tables"]
    assert [(row[0], row[1]) for row in rows] == [(str(tables), column)] * len(kinds)
    assert [text.count(group.KINDS[kind]) for kind in kinds] == [1] * len(kinds)
    for row in rows:
        for cell in (2, 5, 6, 11):
            assert float(row[cell]) > 0
        one_by_one = [row[i] for i in (3, 4, 8, 9, 10)]
        assert all(bool(cell) == (tables == 1) for cell in one_by_one)
        assert bool(row[7]) == (column == "forward")


@pytest.mark.parametrize("table", [0, 1])
@pytest.mark.parametrize("kind", group.KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_a_step_looks_up_each_table(way, kind, table):
    inputs = group.make_ids(kind, 2, OPTIONS.batch_size)
    group.make_step(way, kind, "forward", inputs, GRADS)()
    # An error of one table's lookup shows that it is not left out.
    outside = tf.fill(tf.shape(inputs[table].values if kind == "ragged" else inputs[table]), 10_000)
    outside = tf.cast(outside, tf.int64)
    inputs[table] = inputs[table].with_values(outside) if kind == "ragged" else outside
    step = group.make_step(way, kind, "forward", inputs, GRADS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="10000"):
        step()


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_step_trains(built, way, eager):
    inputs = group.make_ids("one", 2, OPTIONS.batch_size)
    step = group.make_step(way, "one", "adagrad", inputs, GRADS, eager)
    look_up, optimizer, _ = built
    before = look_up(inputs)
    step()
    assert int(optimizer.iterations) == 1
    for old, new in zip(before, look_up(inputs), strict=True):
        assert np.all(np.less(new, old))


@pytest.mark.parametrize("eager", [False, True])
def test_all_ways_take_turns(monkeypatch, eager):
    turns = []

    def take_turn(step, first, most_steps, most_seconds):
        turns.append(most_steps)
        return [30.0, 60.0]

    monkeypatch.setattr(group, "take_turn", take_turn)
    options = argparse.Namespace(**{**vars(OPTIONS), "eager": eager})
    times = group.measure("one", "forward", 2, options)
    ways = WAYS if eager else (*WAYS, group.PLAIN, group.PLAIN_OPS, group.WRITE)
    assert times == {way: [30.0, 60.0] for way in ways}
    assert turns == [OPTIONS.steps] * len(ways)


def test_shows_what_has_not_been_timed_as_empty():
    times = {group.GROUP: [3.0, 1.0, 2.0], group.OURS: [5.0], group.KERAS: [40.0]}
    line = group.table("one", {(4, "forward"): times}).splitlines()[-1]
    cells = line.strip("| ").split(" | ")
    assert cells == ["4", "forward", "2", "5", "40", "", "", "", "20.0", "", "", "500"]


NUM_TABLES = len(group.WIDTHS) + 2  # two widths have two tables


def keep_floors(monkeypatch, module, name):
    """Returns a list of the floors that are made from here on."""
    made, make = [], getattr(module, name)

    def make_and_keep(*arguments, **options):
        made.append(make(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(module, name, make_and_keep)
    return made


@pytest.mark.parametrize("column", group.COLUMNS)
@pytest.mark.parametrize("kind", group.KINDS)
def test_plain_loops_do_the_steps_of_all_tables(monkeypatch, kind, column):
    made = keep_floors(monkeypatch, group.floor, "Floor")
    inputs = group.make_ids(kind, NUM_TABLES, OPTIONS.batch_size)
    step = group.make_plain(kind, column, inputs, OPTIONS)
    step()
    step()
    assert sorted(each.workload.output_dim for each in made) == sorted(group.WIDTHS)
    assert [each.workload.num_tables for each in made] == [2, 2, 1, 1, 1]
    for first, each in enumerate(made):
        own = inputs[first :: len(group.WIDTHS)]
        ids = own if kind == "one" else [bags.values for bags in own]
        for mine, theirs in zip(each.workload.ids[0], ids, strict=True):
            np.testing.assert_array_equal(mine, theirs)
        if kind == "ragged":
            for mine, bags in zip(each.workload.row_splits[0], own, strict=True):
                np.testing.assert_array_equal(mine, bags.row_splits)
        # All rows written: they begin at .01, and the second step reads what the first has moved.
        assert each.num_steps == 2 * (column != "forward")
        moved = []
        for output, bags in zip(each.outputs, own, strict=True):
            counts = bags.row_lengths().numpy() if kind == "ragged" else np.ones(len(bags))
            distance = np.abs(output - 0.01 * counts[:, np.newaxis]).max()
            moved.append(distance > 1e-4)
        assert all(moved) if column != "forward" else not any(moved)


@pytest.mark.parametrize("column", group.COLUMNS)
@pytest.mark.parametrize("kind", group.KINDS)
def test_plain_loops_as_ops_do_what_they_do_alone(monkeypatch, kind, column):
    made = keep_floors(monkeypatch, floor_in_tensorflow, "FloorInTensorFlow")
    inputs = group.make_ids(kind, NUM_TABLES, OPTIONS.batch_size)
    grads = [tf.fill((OPTIONS.batch_size, width), 0.01) for width in group.widths_of(NUM_TABLES)]
    step = group.make_plain_ops(kind, column, inputs, grads, OPTIONS)
    step()
    step()
    assert [each.workload.num_tables for each in made] == [2, 2, 1, 1, 1]
    assert [int(each.count) for each in made] == [2 * (column != "forward")] * len(made)
    for first, each in enumerate(made):
        # A third lookup: the same rows as the loops read when they are called alone.
        ids = inputs[first :: len(group.WIDTHS)]
        splits = [bags.row_splits for bags in ids] if kind == "ragged" else []
        outputs = each.lookup([bags.values for bags in ids] if splits else ids, splits)
        each.forward(0)
        for output, alone, bags in zip(outputs, each.outputs, ids, strict=True):
            np.testing.assert_array_equal(output, alone)
            counts = bags.row_lengths().numpy() if kind == "ragged" else np.ones(len(bags))
            distance = np.abs(alone - 0.01 * counts[:, np.newaxis]).max()
            assert (distance > 1e-4) == (column != "forward")


def test_the_floor_writes_as_much_as_all_outputs(monkeypatch):
    made, aligned = [], group.floor.aligned

    def make_and_keep(shape):
        made.append(aligned(shape))
        return made[-1]

    monkeypatch.setattr(group.floor, "aligned", make_and_keep)
    write = group.make_write(GRADS)
    write()
    assert made[0].size == OPTIONS.batch_size * sum(group.widths_of(2))
    np.testing.assert_array_equal(made[0], 1)
