"""Tables, and their gradients, for tests of lookups named as those of `tf.nn`."""

import numpy as np
import tensorflow as tf

from keras_sparse import EmbeddingVariable

ROWS = np.random.default_rng(3).normal(size=(7, 3)).astype("float32")


def table(input_dim=7, rows=ROWS, keys=None):
    variable = EmbeddingVariable(input_dim, rows.shape[1])
    variable.import_(np.arange(len(rows)) if keys is None else keys, rows)
    return variable


def run(variable, ids, flat_weights, read):
    """Pooled rows, and the gradients of a sum in which no two of their numbers count alike."""
    with tf.GradientTape() as tape:
        weights = None
        if flat_weights is not None:
            tape.watch(flat_weights)
            weights = with_values(ids, flat_weights)
        pooled = read(variable, ids, weights)
        counts = tf.range(1.0, tf.cast(tf.size(pooled), tf.float32) + 1)
        loss = tf.reduce_sum(pooled**2 * tf.reshape(counts, tf.shape(pooled)))
    watched = [variable] if flat_weights is None else [variable, flat_weights]
    return pooled, *tape.gradient(loss, watched)


def with_values(bags, values):
    if isinstance(bags, tf.SparseTensor):
        return tf.SparseTensor(bags.indices, values, bags.dense_shape)
    return bags.with_values(values)


def dense(grad):
    if not isinstance(grad, tf.IndexedSlices) or grad.values.shape.rank == 1:  # of weights
        return np.asarray(tf.convert_to_tensor(grad))
    grads = np.zeros_like(ROWS)
    np.add.at(grads, np.asarray(grad.indices), np.asarray(grad.values))
    return grads


def check_equals_tensorflow(
    theirs, ours, ids, weights, input_dim=7, wraps=(lambda f: f, tf.function)
):
    """Compares pooled rows and gradients of two lookups, outside of a `tf.function` and inside.

    Args:
        theirs, ours: Functions of a table, ids and weights, for rows.
        ids: The ids for ours.
        weights: Values of the weights, or None.
        input_dim: That of our table.
        wraps: What to make of our function.
    """
    # TensorFlow's own has no gradient of ragged weights.
    sparse_ids = ids.to_sparse() if isinstance(ids, tf.RaggedTensor) else ids
    expected = run(tf.Variable(ROWS), sparse_ids, weights, theirs)
    variable = table(input_dim)
    for wrap in wraps:
        found = wrap(lambda ids, weights: run(variable, ids, weights, ours))(ids, weights)
        assert found[0].shape == expected[0].shape
        for each, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(dense(each), dense(wanted), rtol=1e-4, atol=1e-5)
