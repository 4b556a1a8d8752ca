"""Rows by their keys, of tables that lie on many ranks: those of one table, on all ranks."""

import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.distribute.tables import distributed_table
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from table_twins import small

# Tables that are whole on a rank, cut by rows or by columns, or copied.
OPTIONS = [
    {},
    {"row_slice_threshold": 1},
    {"column_slice_threshold": 40},
    {"data_parallel_threshold": 200},
]
TABLES = {"films": (30, 6), "users": (None, 4)}
# A key twice, and of each table some without a row or a step.
KEYS = [3, 0, 29, 7, 7, 12, 1, 4]
ANY_KEYS = [*KEYS, -5, 2**63 - 1, -(2**63)]


def tables():
    return {name: Embedding(*shape, seed=i) for i, (name, shape) in enumerate(TABLES.items())}


def train(lookup, variables, optimizer):
    """The same batch on each rank is one batch. Later steps leave rows of the first ones out."""
    for ids in ([3, 29, 7], [12, 4], [4]):
        with tf.GradientTape() as tape:
            rows = lookup({name: tf.constant(ids, tf.int64) for name in TABLES})
            loss = tf.add_n([tf.reduce_sum(each**2) for each in rows.values()])
        optimizer.apply(tape.gradient(loss, variables), variables)


@pytest.fixture(params=OPTIONS, ids=str)
def pair(request, monkeypatch):
    """A layer over the ranks, and a group of the same tables on each, after the same steps."""
    monkeypatch.setattr(distributed_table, "CHUNK_BYTES", 400)
    layer, alone = DistributedEmbedding(tables(), **request.param), tables()
    for each in (layer, *alone.values()):
        each.build()
    adam = keras_sparse.optimizers.Adam
    train(layer, layer.trainable_variables, ksd.DistributedOptimizer(adam(0.1)))
    variables = [each.embeddings for each in alone.values()]
    train(lambda ids: {name: alone[name](ids[name]) for name in TABLES}, variables, adam(0.1))
    return layer, alone


def check_same(layer, alone, keys, name):
    np.testing.assert_array_equal(layer.contains(keys, table=name), alone.contains(keys))
    found, expected = layer.find(keys, table=name), alone.find(keys)
    np.testing.assert_array_equal(found.exist, expected.exist)
    np.testing.assert_allclose(found.rows, expected.rows, rtol=1e-5, atol=1e-7)
    assert list(found.slots) == list(expected.slots)
    for slot, values in found.slots.items():
        np.testing.assert_allclose(values, expected.slots[slot], rtol=1e-5, atol=1e-7)
    told = gather_objects([found.rows.tobytes(), found.exist.tobytes()], "found")
    assert told == [told[0]] * ksd.size()


def test_all_ranks_find_write_and_erase_rows(pair):
    layer, alone = pair
    for name, keys in (("films", KEYS), ("users", ANY_KEYS)):
        check_same(layer, alone[name], keys, name)
        rng = np.random.default_rng(0)
        rows = rng.normal(size=(4, TABLES[name][1]))
        slots = {each: rng.random(rows.shape) for each in ("momentum", "velocity")}
        for each, table in ((layer, {"table": name}), (alone[name], {})):
            each.assign([3, 1, 12, 3], rows, **table)
            each.assign([7, 2], rows[:2], {n: values[:2] for n, values in slots.items()}, **table)
        check_same(layer, alone[name], [*keys, 2], name)
    for each, table in ((layer, {"table": "users"}), (alone["users"], {})):
        each.erase([12, 3, 99, -5], **table)
    check_same(layer, alone["users"], ANY_KEYS, "users")
    for name in TABLES:
        (ours, expected) = (
            {int(k): row for keys, rows in pieces for k, row in zip(keys, rows, strict=True)}
            for pieces in (layer.export(20, table=name), alone[name].export(20))
        )
        assert ours.keys() == expected.keys()
        for key, row in ours.items():
            np.testing.assert_allclose(row, expected[key], rtol=1e-5, atol=1e-7)
    assert layer.find([], table="users").rows.shape == (0, 4)


def test_each_rank_compacts_its_files(folder):
    layer = DistributedEmbedding(
        {
            "users": Embedding(None, 4, storage=small(folder / "tiers")),
            "songs": Embedding(None, 4, storage=small(folder / "tiers"), padding_id=0),
            "films": Embedding(30, 6),
        },
        row_slice_threshold=1,
    )
    layer.build()
    keys = np.arange(1, 12000)
    rows = np.random.default_rng(0).normal(size=(len(keys), 4)).astype(np.float32)
    for name in ("users", "songs"):
        layer.assign(keys, rows, table=name)
        layer.erase(keys[:40], table=name)
    layer.stats()  # waits for what the background writes

    def num_found():
        files = [path.read_bytes() for path in folder.rglob("*.seg")]
        return sum(any(row.tobytes() in file for file in files) for row in rows[:40])

    found = gather_objects(num_found(), "found")
    assert min(found) > 20, found
    layer.compact(table="films")
    layer.compact(table="songs")
    found = gather_objects(num_found(), "found")
    assert min(found) > 20, found
    layer.compact()
    assert gather_objects(num_found(), "found") == [0] * ksd.size()
    for name in ("users", "songs"):
        assert not layer.contains(keys[:40], table=name).any()
        np.testing.assert_array_equal(layer.find(keys[40:], table=name).rows, rows[40:])


def test_all_ranks_refuse_what_one_does():
    layer = DistributedEmbedding(tables())
    layer.build()
    layer.assign([3, 7], np.zeros((2, 4)), table="users")
    last = ksd.rank() == ksd.size() - 1
    calls = [
        (lambda: layer.find([30], table="films"), ValueError, r"id must be in \[0, 30\)"),
        (lambda: layer.assign([3, 30], np.zeros((2, 6)), table="films"), ValueError, r"\[0, 30\)"),
        (lambda: layer.erase([3], table="films"), NotImplementedError, "from a dynamic table"),
        (lambda: layer.assign([3], [[1]], table="users"), ValueError, "`rows` must be numbers of"),
        (
            lambda: layer.assign([3], np.zeros((1, 4)), 5, table="users"),
            ValueError,
            "`slots` must be `None` for a table .* Received: int",
        ),
        (lambda: layer.find([0.5], table="users"), TypeError, "`keys` must be one list"),
    ]
    if ksd.size() > 1:
        words = "must be called on all ranks with the same `{}`"
        rows = np.full((1, 4), float(last))
        calls += [
            (lambda: layer.contains([int(last)], table="users"), ValueError, words.format("keys")),
            (lambda: layer.assign([3], rows, table="users"), ValueError, words.format("rows")),
            (lambda: layer.find([0.5 if last else 1], table="users"), TypeError, "one list of int"),
        ]
    for call, kind, message in calls:
        with pytest.raises(kind, match=message):
            call()
    assert layer.find([3, 7], table="users").exist.all()
