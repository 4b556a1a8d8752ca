"""A stage finds the lookups of a user's own layer, by whichever function it looks up."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import prefetch_cases as cases
from keras_sparse import ops
from keras_sparse.data import prefetch_lookups
from stages import keep_stages

IDS = np.arange(24).reshape(-1, 4)
LABELS = np.ones((6, 1), np.float32)


def by_lookup(table, ids):
    (rows,) = ops.lookup([table], [tf.reshape(ids, [-1])])
    return tf.reduce_sum(tf.reshape(rows, (-1, 4, 2)), axis=1)


def ragged_of(ids):
    """Ids of samples of 4, 3 ... of them, and a weight for each."""
    ids = tf.RaggedTensor.from_tensor(ids, lengths=4 - tf.range(tf.shape(ids)[0]))
    return ids, tf.cast(ids, tf.float32) + 0.5


# Functions of a table and dense ids (batch_size, 4), for the rows of each sample.
FUNCTIONS = {
    "lookup": by_lookup,
    "embedding_lookup": lambda table, ids: tf.reduce_sum(ops.embedding_lookup(table, ids), axis=1),
    "embedding_lookup_sparse, ragged": lambda table, ids: ops.embedding_lookup_sparse(
        table, ragged_of(ids)[0], None
    ),
    "embedding_lookup_sparse, weighted": lambda table, ids: ops.embedding_lookup_sparse(
        table, *ragged_of(ids), "sqrtn"
    ),
    "embedding_lookup_sparse, max_norm": lambda table, ids: ops.embedding_lookup_sparse(
        table, *ragged_of(ids), "sum", max_norm=0.01
    ),
    "safe_embedding_lookup_sparse": lambda table, ids: ops.safe_embedding_lookup_sparse(
        table, tf.sparse.from_dense(ids - 5), default_id=29
    ),
    "safe_embedding_lookup_sparse, weighted": lambda table, ids: ops.safe_embedding_lookup_sparse(
        table, *ragged_of(ids - 5), "sum"
    ),
}


class OwnLayer(keras.layers.Layer):
    """A user's layer that looks up by a function."""

    def __init__(self, function):
        super().__init__()
        self.supports_jit = False
        self.function = function
        self.table = keras_sparse.EmbeddingVariable(30, 2, seed=1)

    def call(self, ids):
        return self.function(self.table, ids)

    def compute_output_shape(self, shape):
        return (shape[0], 2)


def make_model(name):
    ids = keras.Input((4,), dtype="int64")
    outputs = keras.layers.Dense(1)(OwnLayer(FUNCTIONS[name])(ids))
    model = keras.Model(ids, outputs)
    model.compile(keras_sparse.optimizers.SGD(0.1), loss="mse")
    return model


@pytest.mark.parametrize("name", FUNCTIONS)
def test_finds_the_lookups_of_a_users_own_layer(name, monkeypatch):
    model = make_model(name)
    batches = tf.data.Dataset.from_tensor_slices((IDS, LABELS)).batch(2)
    expected = model.predict(batches, verbose=0)
    stages = keep_stages(monkeypatch)
    ahead = prefetch_lookups(batches, model, 1, 2, "stale")
    outputs = model.predict(ahead, verbose=0, callbacks=stages)
    np.testing.assert_array_equal(outputs, expected)
    predicted = cases.prefetch_stats(model)
    model.fit(ahead, verbose=0, shuffle=False, callbacks=stages)
    trained = cases.prefetch_stats(model)
    assert (predicted["staged"], trained["staged"]) == (3, 6)
    assert 0 < predicted["used"] < trained["used"]
    # The first batch may be overtaken; no other lookup is missed.
    assert trained["missed"] == trained["dropped"]
