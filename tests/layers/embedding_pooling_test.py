"""Pooling and its gradients against `tf.nn.embedding_lookup_sparse`."""

import numpy as np
import tensorflow as tf

from keras_sparse.layers import Embedding
from pairwise import each_pair

COMBINERS = ["sum", "mean", "sqrtn"]
ROWS = 11


def random_bags(rng, hotness, num_bags=40):
    """Ragged ids with repeats and weights; bags 0, 20 and the last are empty."""
    lengths = rng.integers(0, hotness + 1, num_bags)
    lengths[[0, 20, -1]] = 0
    ids = rng.integers(0, ROWS, lengths.sum())
    weights = rng.uniform(0.5, 2.0, lengths.sum()).astype("float32")
    return (tf.RaggedTensor.from_row_lengths(values, lengths) for values in (ids, weights))


def reference_gradients(table, ids, weights, combiner, output_grads):
    """Outputs and gradients of TensorFlow's own lookup, with zeros for empty bags."""
    table, flat = tf.Variable(table), tf.Variable(weights.values)
    with tf.GradientTape() as tape:
        sparse = weights.with_values(flat).to_sparse()
        rows = tf.nn.embedding_lookup_sparse(table, ids.to_sparse(), sparse, combiner=combiner)
        rows = tf.pad(rows, [[0, ids.nrows() - tf.shape(rows, tf.int64)[0]], [0, 0]])
        loss = tf.reduce_sum(rows * output_grads)
    table_grads, weight_grads = tape.gradient(loss, [table, flat])
    return rows, tf.convert_to_tensor(table_grads), weight_grads


def layer_gradients(layer, ids, weights, output_grads):
    with tf.GradientTape() as tape:
        tape.watch(weights.values)
        rows = layer(ids, weights=weights)
        loss = tf.reduce_sum(rows * output_grads)
    return rows, *tape.gradient(loss, [layer.embeddings, weights.values])


def dense(slices):
    grads = np.zeros((ROWS, slices.values.shape[1]), "float32")
    np.add.at(grads, slices.indices.numpy(), slices.values.numpy())
    return grads


@each_pair(
    dim=[1, 3, 5, 16, 1500],
    combiner=COMBINERS,
    input_dim=[ROWS, None],
    wrap=[lambda f: f, tf.function],
)
def test_equals_tensorflow_in_rows_and_gradients(dim, combiner, input_dim, wrap):
    rng = np.random.default_rng(dim)
    ids, weights = random_bags(rng, 6)
    table = rng.normal(size=(ROWS, dim)).astype("float32")
    layer = Embedding(input_dim, dim, combiner)
    layer.build()
    layer.embeddings.import_(np.arange(ROWS), table)
    output_grads = rng.normal(size=(40, dim)).astype("float32")
    expected = reference_gradients(table, ids, weights, combiner, output_grads)
    rows, slices, weight_grads = wrap(layer_gradients)(layer, ids, weights, output_grads)
    np.testing.assert_allclose(rows, expected[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(dense(slices), expected[1], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(weight_grads, expected[2], rtol=1e-4, atol=1e-3)


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


@each_pair(combiner=COMBINERS, values=[[0.0, 0.0], [1.0, -1.0]])
def test_weights_that_sum_to_nothing_give_no_nan(values, combiner):
    layer = Embedding(4, 3, combiner)
    weights = tf.constant([values])
    with tf.GradientTape() as tape:
        tape.watch(weights)
        outputs = layer(np.array([[1, 1]]), weights=weights)
    slices, weight_grads = tape.gradient(outputs, [layer.embeddings, weights])
    np.testing.assert_array_equal(outputs, np.zeros((1, 3)))
    assert np.isfinite(slices.values).all()
    assert np.isfinite(weight_grads).all()


def test_weights_are_differentiable_while_the_table_is_frozen():
    layer = Embedding(4, 2, "sum", "ones", trainable=False)
    weights = tf.Variable([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(np.array([[1, 2]]), weights=weights))
    np.testing.assert_array_equal(tape.gradient(loss, weights), [[2, 2]])
