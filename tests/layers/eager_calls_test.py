"""What runs in a call that is compiled by nothing: each op costs more than a small lookup."""

import functools

import pytest
import tensorflow as tf
from tensorflow.python.framework import op_callbacks

import keras_sparse
from keras_sparse.layers import Embedding
from keras_sparse.layers import GroupEmbedding

IDS = tf.constant([3, 1, 3], tf.int64)


def ops_of(call):
    """Returns the types of the ops of a second call."""
    call()
    types = []

    def note(op_type, *facts):
        types.append(op_type)

    op_callbacks.add_op_callback(note)
    try:
        call()
    finally:
        op_callbacks.remove_op_callback(note)
    return types


def group(**options):
    layer = GroupEmbedding([Embedding(10, 4), Embedding(None, 8)], **options)
    return lambda: layer([IDS, IDS])


def of_a_table():
    table = keras_sparse.EmbeddingVariable(10, 4)
    return lambda: keras_sparse.ops.embedding_lookup(table, IDS)


@pytest.mark.parametrize(
    "make",
    [
        lambda: functools.partial(Embedding(10, 4), IDS),
        group,
        lambda: group(output_mode="concat"),
        of_a_table,
    ],
)
def test_a_lookup_is_one_op(make):
    assert ops_of(make()) == ["KerasSparseLookup"]


def test_a_gradient_is_none_but_that_of_the_loss():
    layer = Embedding(10, 4)

    def gradient():
        with tf.GradientTape() as tape:
            rows = layer(IDS)
        return tape.gradient(rows, layer.trainable_variables)

    assert set(ops_of(gradient)) == {"KerasSparseLookup", "Fill"}


def test_an_update_of_all_tables_is_one_op_and_its_numbers():
    tables = [keras_sparse.EmbeddingVariable(10, 4) for _ in range(3)]
    optimizer = keras_sparse.optimizers.Adagrad(0.1)
    optimizer.build(tables)
    grads = [tf.IndexedSlices(tf.ones((3, 4)), IDS, (10, 4))] * 3
    types = ops_of(lambda: optimizer.apply(grads, tables))
    assert types.count("KerasSparseApply") == 1
    assert len(types) == len(ops_of(lambda: optimizer.apply(grads[:1], tables[:1])))
