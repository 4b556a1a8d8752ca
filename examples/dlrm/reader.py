"""The batches of a data set: this rank's part of each, read as a whole."""

import tensorflow as tf

from examples.dlrm.raw_lines import NUM_CATEGORICAL
from examples.dlrm.raw_lines import NUM_NUMERICAL
from keras_sparse import distribute


def training_batches(part, batch_size, first_batch=lambda: 0):
    """Returns the endless dataset that a training takes its batches from, one a step.

    Batches are in the order of the files, which begin anew after the last whole batch. So a
    training that goes on with a later batch has those that it would have had.

    Args:
        part: `split_binary.Part`.
        batch_size: Integer. Samples of all ranks, the same number on each.
        first_batch: Function that gives the batch to begin with, called when reading begins.
    """
    if not 0 < batch_size <= len(part) or batch_size % distribute.size():
        raise ValueError(
            "`batch_size` must be a multiple of the number of ranks, and at most the number of "
            f"samples. Received: batch_size={batch_size}, {distribute.size()} ranks, {len(part)} "
            "samples"
        )
    num_batches = len(part) // batch_size

    def numbers():
        batch = first_batch()
        while True:
            yield batch % num_batches
            batch += 1

    dataset = tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec((), tf.int64))
    return _read(dataset, part, batch_size)


def evaluation_batches(part, batch_size, drop_remainder=False):
    """Returns the dataset of all batches, once; the last may be smaller, and parts of it differ."""
    num_batches = len(part) // batch_size if drop_remainder else -(-len(part) // batch_size)
    return _read(tf.data.Dataset.range(num_batches), part, batch_size)


def samples_of(batch, batch_size, num_samples, rank, size):
    """Returns where a rank's samples of a batch begin and end, as `distribute.shard` has it."""
    begin = batch * batch_size
    length = min(batch_size, num_samples - begin)
    return begin + rank * length // size, begin + (rank + 1) * length // size


def _read(numbers, part, batch_size):
    place = distribute.rank(), distribute.size()

    def read(number):
        return part.read(*samples_of(int(number), batch_size, len(part), *place))

    def read_batch(number):
        numerical, ids, labels = tf.numpy_function(
            read, [number], (tf.float32, tf.int32, tf.float32), stateful=False
        )
        features = {
            "numerical": tf.ensure_shape(numerical, (None, NUM_NUMERICAL)),
            "ids": tf.ensure_shape(ids, (None, NUM_CATEGORICAL)),
        }
        return features, tf.ensure_shape(labels, (None, 1))

    # NumPy copies without Python's lock: batches are read beside each other and beside steps.
    return numbers.map(read_batch, num_parallel_calls=2, deterministic=True).prefetch(2)
