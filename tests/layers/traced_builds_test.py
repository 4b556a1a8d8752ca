"""Models whose `call` is a `tf.function`, whose first trace Keras makes before variables exist."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse import ops
from keras_sparse.layers import All2AllDenseEmbedding
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.layers import GroupEmbedding
from keras_sparse.layers import IntegerLookup

IDS = np.arange(30).reshape(10, 3)
TABLE = {"embeddings_initializer": "ones"}


class Model(keras.Model):
    """Looks up by a layer that its first call builds, inside of a function."""

    def __init__(self, layer, look_up):
        super().__init__()
        self.layer = layer
        self.look_up = look_up

    @tf.function
    def call(self, ids):
        return self.look_up(self.layer, ids)


class TableLayer(keras.layers.Layer):
    """Reads a table that it creates in `build`, by a function of `ops`."""

    def __init__(self, look_up):
        super().__init__()
        self.look_up = look_up

    def build(self, input_shape):
        self.table = keras_sparse.EmbeddingVariable(None, 4, initializer="ones")

    def call(self, ids):
        return self.look_up(self.table, ids)


def of_list(layer, ids):
    return tf.concat(layer([ids, ids + 1]), axis=-1)


def of_slots(layer, ids):
    return layer(tf.expand_dims(ids, -1))


def in_branch(layer, ids):
    return tf.cond(tf.size(ids) > 0, lambda: layer(ids), lambda: tf.zeros((10, 4)))


def through_function(layer, ids):
    return tf.function(lambda ids: layer(ids))(ids)


def by_group(table, ids):
    return ops.group_embedding_lookup([table], [ids])[0]


def by_sparse(table, ids):
    return ops.embedding_lookup_sparse(table, tf.sparse.from_dense(ids + 1), None, combiner="sum")


def tables():
    return [Embedding(None, 4, "sum", **TABLE), Embedding(40, 4, "mean", **TABLE)]


def call(layer, ids):
    return layer(ids)


CASES = {
    "dynamic": (lambda: Embedding(None, 4, "sum", **TABLE), call),
    "static": (lambda: Embedding(30, 4, "sum", **TABLE), call),
    "numpy rows": (lambda: Embedding(30, 4, embeddings_initializer="orthogonal"), call),
    "two dtypes": (lambda: Embedding(None, 4, row_dtype="bfloat16", **TABLE), call),
    "group": (lambda: GroupEmbedding(tables()), of_list),
    "distributed": (lambda: DistributedEmbedding(tables()), of_list),
    "all2all": (lambda: All2AllDenseEmbedding(64, 4, 3, 1, embedding_initializer="ones"), of_slots),
    "function in a function": (lambda: Embedding(None, 4, "sum", **TABLE), through_function),
    "regularized": (lambda: Embedding(30, 4, "sum", embeddings_regularizer="l2", **TABLE), call),
    "embedding_lookup": (lambda: TableLayer(ops.embedding_lookup), call),
    "group_embedding_lookup": (lambda: TableLayer(by_group), call),
    "embedding_lookup_sparse": (lambda: TableLayer(by_sparse), call),
}


@pytest.mark.parametrize("name", CASES)
def test_a_traced_call_reads_and_trains_the_tables_that_it_builds(name):
    make, look_up = CASES[name]
    model = Model(make(), look_up)
    first = model(IDS).numpy()
    ids = tf.constant(IDS)
    np.testing.assert_array_equal(first, look_up(model.layer, ids))
    np.testing.assert_array_equal(first, model(IDS))
    assert np.any(first)

    model.compile(keras_sparse.optimizers.SGD(0.1), lambda _, rows: tf.reduce_sum(rows))
    model.train_on_batch(IDS, np.zeros(10))
    trained = model(IDS).numpy()
    assert np.any(trained != first)
    np.testing.assert_array_equal(trained, look_up(model.layer, ids))


def test_a_traced_call_that_failed_once_is_traced_anew():
    traces = []

    def look_up(layer, ids):
        traces.append(layer.built)
        rows = layer(ids)
        if len(traces) == 1:  # Keras ignores it
            raise ValueError("of the first trace")
        return rows

    model = Model(Embedding(None, 4, "sum", **TABLE), look_up)
    for _ in range(2):
        np.testing.assert_array_equal(model(IDS), np.full((10, 4), 3.0))
    assert traces == [False, True]


def test_a_branch_of_a_traced_call_reads_the_table_that_it_builds():
    model = Model(Embedding(None, 4, "sum", **TABLE), in_branch)
    for _ in range(2):
        np.testing.assert_array_equal(model(IDS), np.full((10, 4), 3.0))


def test_a_traced_call_reads_the_tokens_of_a_vocabulary_that_it_builds():
    model = Model(IntegerLookup(40), lambda layer, ids: layer(ids, training=True))
    model(IDS)
    np.testing.assert_array_equal(model(IDS), IDS + 1)


def test_a_stateless_scope_reads_initial_rows():
    layer = Embedding(None, 4, **TABLE)
    with keras.StatelessScope():
        np.testing.assert_array_equal(layer(IDS), np.ones((10, 3, 4)))
    np.testing.assert_array_equal(layer(IDS), np.ones((10, 3, 4)))


def test_keras_infers_shapes_without_ops_of_tables(monkeypatch):
    """Rows are zeros there: a table that is still to be created costs nothing."""

    class Inferred(keras.Model):
        def __init__(self):
            super().__init__()
            self.layer = Embedding(None, 4, "sum", **TABLE)
            self.natives = []

        def call(self, ids):
            rows = self.layer(ids)
            self.natives.append(self.layer.embeddings.native)
            return rows

    model = Inferred()
    model(IDS)
    assert [each is None for each in model.natives] == [True, False]
