"""Rows by their keys through layers, of one table and of several."""

import keras
import numpy as np
import pytest

import keras_sparse
from keras_sparse import layers
from keras_sparse.layers import All2AllDenseEmbedding
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.layers import GroupEmbedding

KEYS = [3, -7, 2**62]
ROWS = np.arange(6, dtype="float32").reshape(3, 2)


def test_a_layer_of_one_table_has_the_methods_of_its_table():
    layers = [
        Embedding(None, 2),
        DistributedEmbedding(Embedding(None, 2)),
        All2AllDenseEmbedding(100, 2, 1, 1, use_hashtable=True),
    ]
    for layer in layers:
        layer.build((None, 1))
        layer.assign(KEYS, ROWS)
        assert layer.contains([*KEYS, 4]).tolist() == [True, True, True, False]
        np.testing.assert_array_equal(layer.find(KEYS).rows, ROWS)
        layer.assign(KEYS[:1], [[8, 9]], slots={})
        layer.erase(KEYS[1:])
        ((keys, records),) = layer.export()
        assert (keys.tolist(), records.tolist()) == ([3], [[8, 9]])
        (((*_, ages),)) = layer.export(1, with_ages=True)
        assert ages is None


def test_a_layer_of_several_tables_is_told_which():
    layer = GroupEmbedding({"users": Embedding(None, 2), "films": Embedding(5, 2)})
    layer.build()
    layer.assign(KEYS, ROWS, table="users")
    layer.assign([4], ROWS[:1], table="films")
    assert layer.contains([4, 5], table="films").tolist() == [True, False]
    np.testing.assert_array_equal(layer.find([3], table="users").rows, ROWS[:1])
    layer.erase([3], table="users")
    assert sum(len(keys) for keys, _ in layer.export(2, table="users")) == 2
    assert sum(len(keys) for keys, _ in layer.export(2, table="films")) == 5
    with pytest.raises(NotImplementedError, match="Rows must be erased from a dynamic table"):
        layer.erase([4], table="films")
    for table in (None, "songs", 0):
        with pytest.raises(ValueError, match=r"one of \['users', 'films'\]. Received: table="):
            layer.contains([3], table=table)


def test_an_unbuilt_layer_has_no_rows():
    with pytest.raises(RuntimeError, match="`find` must be called on"):
        Embedding(None, 2).find([1])
    with pytest.raises(ValueError, match="`erase` must be called on"):
        GroupEmbedding([Embedding(4, 2)]).erase([1])


def test_a_subclass_may_have_methods_of_these_names():
    class Named(keras_sparse.layers.Embedding):
        def find(self, keys, table=None):
            return "found"

    layer = DistributedEmbedding([Named(4, 2)])
    layer.build()
    assert layer.contains([3]).all()


# What a layer says whose table is asked for before it is built.
METHODS = ("stats", "evict", "embeddings", "tables", "get_weights")


def plain():
    return layers.Embedding(None, 2, eviction=keras_sparse.GlobalStepEvict(3), name="mine")


def distributed(kind):
    return kind([layers.Embedding(4, 2, name="a")], name="mine")


CASES = [
    *[(plain, name) for name in METHODS[:3]],
    *[
        (lambda kind=kind: distributed(kind), name)
        for kind in (layers.DistributedEmbedding, layers.GroupEmbedding)
        for name in METHODS
        if name != "embeddings"
    ],
    *[
        (lambda: layers.All2AllDenseEmbedding(8, 4, 2, 3, name="mine"), name)
        for name in ("stats", "tables")
    ],
]


def read(layer, name):
    value = getattr(layer, name)
    return value() if callable(value) else value


@pytest.mark.parametrize(("make", "name"), CASES)
def test_names_the_layer_and_how_to_build_it(make, name):
    layer = make()
    words = rf"`{name}` must be .* a built layer\. .*`layer\.build\(\)` first\. .* layer 'mine'"
    is_attribute = name in ("embeddings", "tables")
    kinds = AttributeError if is_attribute else (RuntimeError, ValueError)
    with pytest.raises(kinds, match=words):
        read(layer, name)
    assert hasattr(layer, name) != is_attribute
    layer.build()
    read(layer, name)


def in_scope(layer):
    with layers.group_embedding_scope(name="group"):
        assert layer(keras.Input((), dtype="int64")).shape == (None, 2)


def in_group(layer):
    layers.GroupEmbedding([layer], name="group").build([(None,)])


def in_distributed(layer):
    layers.DistributedEmbedding({"table": layer}, name="group").build({"table": (None,)})


@pytest.mark.parametrize("give", [in_scope, in_group, in_distributed])
@pytest.mark.parametrize("name", METHODS[:3])
def test_names_the_layer_that_has_the_table(name, give):
    layer = layers.Embedding(4, 2, name="mine")
    give(layer)
    words = rf"`{name}` must .*`model.get_layer\('group'\)`.*'mine', whose table is one of layer"
    with pytest.raises((AttributeError, RuntimeError), match=words):
        read(layer, name)
