"""Horovod's own collectives inside a `tf.function`: what an installed Horovod must do."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse.distribute as ksd
from keras_sparse.distribute.ranks.runtime import horovod

if ksd.size() == 1:
    pytest.skip("one rank needs no Horovod", allow_module_level=True)

ROWS = tf.TensorSpec((None, 2), "int64")
SPLITS = tf.TensorSpec((None,), "int32")


@tf.function(input_signature=[ROWS, SPLITS])
def exchange(rows, splits):
    """Sends `splits[to]` of the rows to each rank, and returns those that came."""
    return horovod().alltoall(rows, splits, name="rows")


@tf.function
def average(gradient):
    """The mean of all ranks' gradients."""
    return horovod().allreduce(gradient, op=horovod().Average, name="gradient")


@tf.function
def from_rank_0(value):
    """The value of rank 0."""
    return horovod().broadcast(value, root_rank=0, name="value")


@pytest.mark.parametrize(
    "num_rows",
    [
        lambda source, to: (source + to) % ksd.size(),  # none to one of the ranks
        lambda source, to: 3 * source,  # none from rank 0
        lambda source, to: to * 1000,  # none to rank 0
        lambda source, to: 0,
    ],
    ids=["not_to_one", "not_from_0", "not_to_0", "none"],
)
def test_exchanges_parts_of_any_sizes(num_rows):
    """Rank `source` has `num_rows(source, to)` rows for rank `to`; each says whence and whither."""
    here, ranks = ksd.rank(), range(ksd.size())
    splits = [num_rows(here, to) for to in ranks]
    rows = np.repeat([[here, to] for to in ranks], splits, axis=0)
    received, counts = exchange(rows, splits)
    expected = [num_rows(source, here) for source in ranks]
    np.testing.assert_array_equal(counts, expected)
    sent_here = np.repeat([[source, here] for source in ranks], expected, axis=0)
    np.testing.assert_array_equal(received, sent_here)


def test_averages_the_gradient_of_a_layer():
    """Averaged gradients of a Keras layer are those of all ranks' samples together."""
    layer = keras.layers.Dense(1, kernel_initializer="ones", use_bias=False)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(layer(tf.fill((1, 3), float(ksd.rank()))))
    (gradient,) = tape.gradient(total, layer.trainable_variables)
    np.testing.assert_allclose(average(gradient), np.full((3, 1), (ksd.size() - 1) / 2))


def test_gives_all_ranks_the_value_of_one():
    np.testing.assert_array_equal(from_rank_0(tf.constant([ksd.rank() + 7])), [7])
