"""Checks Horovod's collectives inside a `tf.function`: run by horovodrun on every rank."""

import horovod.tensorflow as horovod
import keras
import numpy as np
import tensorflow as tf

ROWS = tf.TensorSpec((None, 2), "int64")
SPLITS = tf.TensorSpec((None,), "int32")


@tf.function(input_signature=[ROWS, SPLITS])
def exchange(rows, splits):
    """Sends `splits[to]` of the rows to each rank, and returns those that came."""
    return horovod.alltoall(rows, splits, name="rows")


@tf.function
def average(gradient):
    """The mean of all ranks' gradients."""
    return horovod.allreduce(gradient, op=horovod.Average, name="gradient")


@tf.function
def from_rank_0(value):
    """The value of rank 0."""
    return horovod.broadcast(value, root_rank=0, name="value")


def check_exchange(num_rows):
    """Rank `source` has `num_rows(source, to)` rows for rank `to`; each says whence and whither."""
    here, ranks = horovod.rank(), range(horovod.size())
    splits = [num_rows(here, to) for to in ranks]
    rows = np.repeat([[here, to] for to in ranks], splits, axis=0)
    received, counts = exchange(rows, splits)
    expected = [num_rows(source, here) for source in ranks]
    np.testing.assert_array_equal(counts, expected)
    sent_here = np.repeat([[source, here] for source in ranks], expected, axis=0)
    np.testing.assert_array_equal(received, sent_here)


def check_gradient():
    """Averaged gradients of a Keras layer are those of all ranks' samples together."""
    layer = keras.layers.Dense(1, kernel_initializer="ones", use_bias=False)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(layer(tf.fill((1, 3), float(horovod.rank()))))
    (gradient,) = tape.gradient(total, layer.trainable_variables)
    np.testing.assert_allclose(average(gradient), np.full((3, 1), (horovod.size() - 1) / 2))


def main():
    """Prints a line once all held."""
    horovod.init()
    size = horovod.size()
    check_exchange(lambda source, to: (source + to) % size)  # none to one of the ranks
    check_exchange(lambda source, to: 3 * source)  # none from rank 0
    check_exchange(lambda source, to: to * 1000)  # none to rank 0
    check_exchange(lambda source, to: 0)
    check_gradient()
    np.testing.assert_array_equal(from_rank_0(tf.constant([horovod.rank() + 7])), [7])
    print(f"rank {horovod.rank()} of {size} passed", flush=True)


if __name__ == "__main__":
    main()
