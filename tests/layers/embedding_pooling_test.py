"""Pooling and its gradients against `tf.nn.embedding_lookup_sparse`."""

import numpy as np
import tensorflow as tf

from keras_sparse.layers import Embedding
from pairwise import each_pair

COMBINERS = ["sum", "mean", "sqrtn"]
ROWS = 11


@each_pair(
    combiner=COMBINERS,
    # One id a sample, and as many ids as there are rows, are special.
    ids=[
        np.random.default_rng(0).integers(0, ROWS, (8, 4)),
        np.arange(ROWS)[:, np.newaxis],
        np.tile(np.arange(ROWS), (ROWS, 1)),
    ],
)
def test_pools_dense_ragged_and_sparse_ids_alike(combiner, ids):
    layer = Embedding(ROWS, 3, combiner)
    outputs, hotness = layer(ids), ids.shape[1]
    divisor = {"sum": 1, "mean": hotness, "sqrtn": hotness**0.5}[combiner]
    expected = layer.get_weights()[0][ids].sum(1) / divisor
    rtol = {1: 0, 4: 1e-5, ROWS: 1e-6}[hotness]  # one id reads as its row
    np.testing.assert_allclose(outputs, expected, rtol=rtol, atol=0 if rtol == 0 else 1e-8)
    ragged = tf.RaggedTensor.from_tensor(tf.constant(ids))
    np.testing.assert_array_equal(layer(ragged), outputs)
    np.testing.assert_array_equal(layer(ragged.to_sparse()), outputs)


@each_pair(combiner=COMBINERS, weighted=[False, True])
def test_an_empty_batch_and_empty_bags_have_gradients_without_nan(weighted, combiner):
    layer = Embedding(4, 3, combiner)
    for lengths in ([], [0, 0], [0, 2, 0]):
        ids = tf.RaggedTensor.from_row_lengths(tf.ones((sum(lengths),), tf.int64), lengths)
        weights = ids.with_values(tf.ones((sum(lengths),))) if weighted else None
        with tf.GradientTape() as tape:
            outputs = layer(ids, weights=weights)
            loss = tf.reduce_sum(outputs)
        assert outputs.shape == (len(lengths), 3)
        (slices,) = tape.gradient(loss, layer.trainable_variables)
        assert not np.isnan(slices.values).any()
        assert set(slices.indices.numpy()) == ({1} if sum(lengths) else set())


def test_weights_are_differentiable_while_the_table_is_frozen():
    layer = Embedding(4, 2, "sum", "ones", trainable=False)
    weights = tf.Variable([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(np.array([[1, 2]]), weights=weights))
    np.testing.assert_array_equal(tape.gradient(loss, weights), [[2, 2]])
