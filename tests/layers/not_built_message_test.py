"""What a layer says whose table is asked for before it is built."""

import keras
import pytest

import keras_sparse
from keras_sparse import layers

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
