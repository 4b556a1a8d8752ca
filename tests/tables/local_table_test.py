"""Rows by their keys: what `contains`, `find`, `assign` and `erase` make of a table."""

import threading

import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse import CBFFilter
from keras_sparse import CounterFilter
from keras_sparse import EmbeddingVariable
from keras_sparse import native
from keras_sparse.tables.table_part import TablePart
from table_twins import DIM
from table_twins import small
from table_twins import STACKS
from table_twins import Twins

EXTREMES = [2**63 - 1, -(2**63), -1, 0]


def trained(input_dim, optimizer=None, ids=(3, 7, 3), **kwargs):
    """A table that some ids were trained in, and another one, so that rows have missed a step."""
    table = EmbeddingVariable(input_dim, 2, seed=1, **kwargs)
    optimizer = optimizer or keras_sparse.optimizers.Adam(0.1)
    optimizer.build([table])
    for step in (ids, ids[:1]):
        train(table, optimizer, step)
    return table, optimizer


def train(table, optimizer, ids):
    grads = tf.IndexedSlices(tf.ones((len(ids), 2)), tf.constant(ids, tf.int64), (2**62, 2))
    optimizer.apply([grads], [table])


def looked_up(table, keys):
    return native.lookup([table], [tf.constant(keys, tf.int64)])[0].numpy()


def content(table):
    pieces = list(table.export(7))
    keys, records = (np.concatenate(each) for each in zip(*pieces, strict=True))
    return dict(zip(keys.tolist(), records, strict=True))


@pytest.mark.parametrize("storage_type", [None, *STACKS])
def test_rows_of_every_tier_are_found_written_and_erased(storage_type, tmp_path):
    storage = None if storage_type is None else small(tmp_path, storage_type)
    # Rows that miss steps move on in them.
    twins = Twins(storage, lambda: keras_sparse.optimizers.Adam(0.1))
    twins.train_some(12, num_ids=1500)
    table = twins.tiered
    before, counts = content(table), table.stats()
    keys = np.concatenate([np.random.default_rng(0).permutation(1600), EXTREMES, [5, 5]])
    found = table.find(keys)
    np.testing.assert_array_equal(found.exist, [key in before for key in keys.tolist()])
    np.testing.assert_array_equal(found.exist, table.contains(keys))
    assert set(found.slots) == {"momentum", "velocity"}
    records = np.concatenate([found.rows, *found.slots.values()], axis=1)
    for key, record, exists in zip(keys.tolist(), records, found.exist, strict=True):
        np.testing.assert_array_equal(record[DIM:], before[key][DIM:] if exists else 0)
    # It was no lookup, and has moved no row.
    after = table.stats()
    assert {name: after[name] for name in ("rows", "lookups", "hits")} == {
        name: counts[name] for name in ("rows", "lookups", "hits")
    }
    assert [each["rows"] for each in after["tiers"].values()] == [
        each["rows"] for each in counts["tiers"].values()
    ]
    np.testing.assert_array_equal(found.rows, looked_up(table, keys))

    rng = np.random.default_rng(1)
    new = np.concatenate([rng.choice(1500, 300, replace=False), np.arange(2000, 2100)])
    rows = rng.normal(size=(len(new), DIM))
    gone = np.concatenate([rng.choice(1500, 300), EXTREMES, [2001]])
    for each in twins.tables:
        expected = each.find(new)
        each.assign(new, rows)
        found = each.find(new)
        assert found.exist.all()
        np.testing.assert_array_equal(found.rows, rows.astype(np.float32))
        for name, slots in found.slots.items():
            np.testing.assert_array_equal(slots, expected.slots[name])
        each.erase(gone)
        assert not each.contains(gone).any()
    twins.num_ids = 2100
    twins.check()
    twins.train(new.tolist()[:200])
    twins.check()


def test_a_static_table_has_the_rows_of_its_range():
    table, _ = trained(10, ids=(3, 9, 9))
    assert table.contains([3, 0, 9, 10, *EXTREMES]).tolist() == [1, 1, 1, 0, 0, 0, 0, 1]
    found = table.find([9, 0])
    np.testing.assert_array_equal(found.rows, table.numpy()[[9, 0]])
    assert found.slots["momentum"][0, 0] != 0
    table.assign([0, 9], [[1, 2], [3, 4]])
    np.testing.assert_array_equal(table.numpy()[[0, 9]], [[1, 2], [3, 4]])
    for method, words in {
        "find": r"id must be in \[0, 10\) for table '.*'\. Received: keys\[1\] = 10",
        "assign": r"id must be in \[0, 10\)",
    }.items():
        with pytest.raises(ValueError, match=words):
            getattr(table, method)([1, 10], *([np.zeros((2, 2))] if method == "assign" else []))
    with pytest.raises(NotImplementedError, match=r"a dynamic table.*`assign\(ids, rows, slots\)`"):
        table.erase([1])
    table = EmbeddingVariable(10, 2, out_of_range="zero")
    found = table.find([-1, 10, 3])
    assert found.exist.tolist() == [False, False, True]
    assert not found.rows[:2].any()
    with pytest.raises(ValueError, match=r"id must be in \[0, 10\)"):
        table.assign([10], [[1, 2]])


@pytest.mark.parametrize("input_dim", [None, 20])
def test_slots_are_written_with_rows(input_dim):
    table, optimizer = trained(input_dim)
    other = EmbeddingVariable(input_dim, 2, seed=5)
    optimizer_of_other = keras_sparse.optimizers.Adam(0.1)
    optimizer_of_other.build([other])
    train(other, optimizer_of_other, [11])
    train(other, optimizer_of_other, [7])
    found = table.find([3, 7])
    other.assign([3, 7], found.rows, found.slots)
    copied = other.find([3, 7])
    np.testing.assert_array_equal(copied.rows, found.rows)
    for name, slots in found.slots.items():
        np.testing.assert_array_equal(copied.slots[name], slots)
    for each, its in ((table, optimizer), (other, optimizer_of_other)):
        train(each, its, [3])
    np.testing.assert_array_equal(*(looked_up(each, [3, 7]) for each in (table, other)))


def test_a_slot_of_one_float_a_row_is_one():
    table, _ = trained(None, keras_sparse.optimizers.RowWiseAdagrad(0.1))
    slots = table.find([3, 8]).slots
    assert slots["row_accumulator"].shape == (2, 1)
    table.assign([8], [[1, 2]], {"row_accumulator": slots["row_accumulator"][:1]})
    assert table.find([8]).slots["row_accumulator"] == slots["row_accumulator"][0]
    without_slots, _ = trained(None, keras_sparse.optimizers.SGD(0.1))
    with pytest.raises(ValueError, match=r"Build it first: .*Received: \['row_accumulator'\]"):
        without_slots.assign([8], [[1, 2]], slots)


@pytest.mark.parametrize("kind", [CounterFilter(3), CBFFilter(3, 300, 0.1)], ids=type)
def test_a_filter_is_not_asked_and_forgets_what_is_erased(kind):
    table, optimizer = trained(None, admission=kind)
    assert not table.contains([3, 7]).any()
    np.testing.assert_array_equal(table.find([7]).rows, looked_up(table, [7]))
    table.assign([9], [[1, 2]])
    assert table.contains([9]).all()
    waiting = table.stats()["waiting_keys"]
    table.erase([3, 9, 9, 50])
    assert not table.contains([3, 9]).any()
    if isinstance(kind, CounterFilter):
        assert (waiting, table.stats()["waiting_keys"]) == (2, 1)
        train(table, optimizer, [3])
        assert not table.contains([3]).any()
        assert sorted(next(table.table.export_filter(9))[0].tolist()) == [3, 7]


BAD = [
    (lambda t: t.contains([1.0]), TypeError, "`keys` must be one list of integers.*float64"),
    (lambda t: t.find(["a"]), TypeError, "`keys` must be one list of integers"),
    (lambda t: t.erase([True]), TypeError, "Received: keys of bool"),
    (lambda t: t.erase([1, 2**64]), TypeError, "int64 or uint64 holds.*object"),
    (lambda t: t.find(5), ValueError, r"of shape \(n,\): `np.ravel.*keys.shape=\(\)"),
    (lambda t: t.find([[1, 2]]), ValueError, r"keys.shape=\(1, 2\)"),
    (lambda t: t.find([[1], [2, 3]]), ValueError, "`keys` must be one list of integers"),
    (lambda t: t.assign([1], [1, 2]), ValueError, r"`rows` must be.*\(1, 2\).*rows.shape=\(2,\)"),
    (lambda t: t.assign([1, 2], [[1, 2]]), ValueError, r"rows.shape=\(1, 2\)"),
    (lambda t: t.assign([1], [["a", "b"]]), TypeError, "`rows` must be numbers.*string"),
    (lambda t: t.assign([1], [[1, 2], [3]]), ValueError, "`rows` must be numbers"),
    (lambda t: t.assign([1.5], [[1, 2]]), TypeError, "`keys` must be one list of integers"),
    (lambda t: t.assign([1], [[1, 2]], {"momentum": [[1, 2]]}), ValueError, "all slots of the tab"),
    (lambda t: t.assign([1], [[1, 2]], [1]), ValueError, "Received: list"),
    (
        lambda t: t.assign([1], [[1, 2]], {"momentum": [[1, 2]], "velocity": [[1]]}),
        ValueError,
        r"slots\['velocity'\]` must be numbers of shape \(1, 2\)",
    ),
    (lambda t: t.assign(np.zeros((1, 2)), slots={}), ValueError, "must be given with `rows`"),
    (lambda t: t.assign(np.zeros((1, 2))), NotImplementedError, "A dynamic table cannot be assig"),
    (lambda t: tf.function(lambda: t.find([1]))(), RuntimeError, "outside of a `tf.function`"),
    (lambda t: native.read_rows([t], [[1], [2]]), ValueError, "one element per table"),
]


@pytest.mark.parametrize(("call", "kind", "words"), BAD)
def test_what_cannot_be_is_refused_and_changes_nothing(call, kind, words):
    table, _ = trained(None)
    before = content(table)
    with pytest.raises(kind, match=words):
        call(table)
    assert {key: record.tobytes() for key, record in content(table).items()} == {
        key: record.tobytes() for key, record in before.items()
    }


def test_keys_are_of_any_integer_type_and_none_is_reserved():
    table, _ = trained(None)
    table.assign(EXTREMES, np.arange(8).reshape(4, 2))
    for keys in (EXTREMES, np.array(EXTREMES), tf.constant(EXTREMES, tf.int64), tuple(EXTREMES)):
        np.testing.assert_array_equal(table.find(keys).rows, np.arange(8).reshape(4, 2))
    assert table.contains(np.array([2**63, 2**64 - 1], np.uint64)).all()
    assert table.contains(np.array([-1, 0, 5], np.int8)).tolist() == [True, True, False]
    # Of a repeated key the last row stays.
    table.assign([5, -1, 5], [[1, 1], [2, 2], [3, 3]])
    np.testing.assert_array_equal(table.find([5, -1]).rows, [[3, 3], [2, 2]])
    table.erase(np.array([2**64 - 1], np.uint64))
    assert table.contains(EXTREMES).tolist() == [True, True, False, True]
    num_rows = table.num_rows
    assert table.contains([]).shape == (0,)
    assert table.find([]).rows.shape == table.find([]).slots["velocity"].shape == (0, 2)
    table.assign([], np.zeros((0, 2)))
    table.erase([])
    assert table.num_rows == num_rows


@pytest.mark.parametrize("input_dim", [None, 11])
def test_a_part_knows_of_its_own_keys(input_dim):
    whole = EmbeddingVariable(input_dim, 6, seed=1)
    part = TablePart("users", input_dim, 6, 2, 3, shard=1, num_shards=2)
    table = EmbeddingVariable(*part.shape, seed=1, part=part)
    keys = [1, 2, 5, 10]
    for each, width in ((whole, 6), (table, 3)):
        each.assign(keys[:2], np.full((2, width), 9))
    assert table.contains(keys).tolist() == [True, False, input_dim is not None, False]
    found = table.find(keys)
    assert found.exist.tolist() == table.contains(keys).tolist()
    np.testing.assert_array_equal(found.rows[[0, 2]], whole.find(keys).rows[[0, 2], 2:5])
    assert not found.rows[[1, 3]].any()
    if input_dim is None:
        table.erase(keys)
        assert table.num_rows == 0
    else:
        with pytest.raises(ValueError, match=r"id must be in \[0, 11\).*keys\[1\] = 11"):
            table.assign([1, 11], np.zeros((2, 3)))


def test_a_training_thread_sees_each_call_whole():
    table, optimizer = trained(None, keras_sparse.optimizers.SGD(1.0), ids=(0, 1))
    table.assign(np.arange(50), np.zeros((50, 2)))
    done = threading.Event()
    errors = []

    def trains():
        try:
            with tf.device("CPU"):  # as this thread's own, where tests run on an emulated GPU
                for _ in range(150):
                    train(table, optimizer, np.arange(50).tolist())
        except Exception as error:
            errors.append(error)
        done.set()

    thread = threading.Thread(target=trains)
    thread.start()
    while not done.is_set():
        rows = table.find(np.arange(50)).rows
        # A step moves all rows by one, at once; keys that are written by hand are others.
        assert len(np.unique(rows)) == 1
        table.assign([100, 101], [[5, 6], [7, 8]])
        assert table.contains([100, 101]).all()
        np.testing.assert_array_equal(table.find([101]).rows, [[7, 8]])
        table.erase([100, 101])
    thread.join()
    assert not errors
    assert table.num_rows == 50
    np.testing.assert_array_equal(table.find([7]).rows, [[-150, -150]])
