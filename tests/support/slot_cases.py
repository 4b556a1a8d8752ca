"""Keys and weights in SparseOperationKit's form, a row a slot, and their pooling in numpy.

In all of them a weight of zero is a place without a key.
"""

import numpy as np
import tensorflow as tf


def draw(random, keys, num_slots, most):
    """Returns some of the keys and their weights, for each slot and place; some slots are empty."""
    of_places = random.choice(keys, (num_slots, most))
    is_there = random.random(of_places.shape) < 0.5
    return of_places, np.where(is_there, random.uniform(0.5, 2, of_places.shape), 0)


def as_sparse(values, is_there):
    return tf.SparseTensor(np.argwhere(is_there), values[is_there], is_there.shape)


def as_ragged(values, is_there):
    return tf.RaggedTensor.from_row_lengths(values[is_there], is_there.sum(1))


def shares(weights, combiner):
    """Returns what the row of each place counts in that of its slot."""
    sizes = {"sum": np.ones(len(weights)), "mean": weights.sum(1)}
    sizes["sqrtn"] = np.sqrt((weights**2).sum(1))
    return weights / np.where(sizes[combiner] > 0, sizes[combiner], 1)[:, np.newaxis]


def pool(rows, places, parts):
    """Returns the row of each slot.

    Args:
        rows: Array of shape `(num_rows, width)`.
        places: Integers below `num_rows`, `(num_slots, most)`: where the rows of keys are.
        parts: Of the same shape: the `shares` of these rows.
    """
    return (parts[:, :, np.newaxis] * rows[places]).sum(1)


def gradient_of_rows(rows, places, parts, grads):
    """Returns the gradient of the rows for those of the slots, `(num_slots, width)`."""
    gradient = np.zeros_like(rows)
    np.add.at(gradient, places, parts[:, :, np.newaxis] * grads[:, np.newaxis])
    return gradient
