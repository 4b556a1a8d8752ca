import argparse
import re

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import group

OPTIONS = argparse.Namespace(
    batch_size=8, rounds=1, steps=6, steps_a_call=3, most_seconds=1, most_one_by_one=2, threads=2
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


def test_shows_each_way_what_a_table_costs_and_the_floor():
    small = ["--tables", "1", "3", "--batch-size", "8", "--rounds", "1", "--steps", "2"]
    text = group.main([*small, "--steps-a-call", "2", "--most-one-by-one", "1"])
    rows = [re.split(r" *\| *", line)[1:-1] for line in text.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if row[0] != "tables"]
    assert [(row[0], row[1]) for row in rows] == 2 * [
        ("1", "forward"),
        ("1", "adagrad"),
        ("3", "forward"),
        ("3", "adagrad"),
    ]
    for row in rows:
        assert float(row[2]) > 0
        assert float(row[5]) > 0
        assert float(row[9]) > 0
        assert bool(row[3]) == bool(row[4]) == bool(row[7]) == bool(row[8]) == (row[0] == "1")
        assert bool(row[6]) == (row[1] == "forward")


@pytest.mark.parametrize("kind", group.KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_every_step_of_a_call_uses_all_outputs(built, way, kind):
    inputs = group.make_ids(kind, 2, OPTIONS.batch_size)
    call = group.make_call(way, kind, "forward", OPTIONS, inputs, GRADS)
    look_up, _, variables = built
    for variable in variables:
        variable.assign(tf.ones(variable.shape))
    outputs = look_up(inputs)
    assert [output.shape for output in outputs] == [grad.shape for grad in GRADS]
    first = sum(float(output[0, 0]) for output in outputs)
    assert first >= 2
    assert float(call()) == OPTIONS.steps_a_call * first


@pytest.mark.parametrize("way", WAYS)
def test_every_step_of_a_call_trains(built, way):
    inputs = group.make_ids("one", 2, OPTIONS.batch_size)
    call = group.make_call(way, "one", "adagrad", OPTIONS, inputs, GRADS)
    look_up, optimizer, _ = built
    before = look_up(inputs)
    call()
    assert int(optimizer.iterations) == OPTIONS.steps_a_call
    for old, new in zip(before, look_up(inputs), strict=True):
        assert np.all(np.less(new, old))


def test_the_time_of_a_step_is_its_part_of_a_call(monkeypatch):
    turns = []

    def take_turn(call, first, most_calls, most_seconds):
        turns.append(most_calls)
        return [30.0, 60.0]

    monkeypatch.setattr(group, "take_turn", take_turn)
    times = group.measure("one", "forward", 2, OPTIONS)
    assert times == {way: [10.0, 20.0] for way in (*WAYS, group.PLAIN, group.COPY)}
    assert turns == [2] * 5


@pytest.mark.parametrize("column", group.COLUMNS)
@pytest.mark.parametrize("kind", group.KINDS)
def test_plain_loops_do_the_steps_of_all_tables(monkeypatch, kind, column):
    made, floor = [], group.floor.Floor

    def make_and_keep(*arguments, **options):
        made.append(floor(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(group.floor, "Floor", make_and_keep)
    num_tables = len(group.WIDTHS) + 2  # two widths have two tables
    inputs = group.make_ids(kind, num_tables, OPTIONS.batch_size)
    group.make_plain(kind, column, inputs, OPTIONS)()
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
        # As many steps as it says, all rows written: they begin at .01, and a step moves some.
        assert next(each.steps) == 1 + OPTIONS.steps_a_call * (column != "forward")
        moved = []
        for output, bags in zip(each.outputs, own, strict=True):
            counts = bags.row_lengths().numpy() if kind == "ragged" else np.ones(len(bags))
            distance = np.abs(output - 0.01 * counts[:, np.newaxis]).max()
            moved.append(distance > 1e-4)
        assert all(moved) if column != "forward" else not any(moved)


def test_the_floor_copies_as_much_as_all_outputs_in_each_step(monkeypatch):
    copied, copyto = [], np.copyto

    def copy_and_count(target, source):
        copyto(target, source)
        copied.append(target.size)

    copy = group.make_copy(GRADS, OPTIONS)
    monkeypatch.setattr(np, "copyto", copy_and_count)
    copy()
    assert len(copied) == OPTIONS.steps_a_call * OPTIONS.threads
    assert sum(copied) == OPTIONS.steps_a_call * OPTIONS.batch_size * sum(group.widths_of(2))
