"""A table under training, rows for all of its keys, and tiers that hold them."""

import numpy as np

from benchmarks import workloads
from benchmarks.memory import DIM

RECORD_BYTES = 4 * 2 * DIM  # with Adagrad's slot
BESIDE_A_ROW = 30  # key, index and order, in bytes
CHUNK = 1 << 18


def make_storage(storage_type, share, num_keys, folder):
    """Returns tiers of which the first one holds a share of the keys."""
    import keras_sparse

    if "_" not in storage_type:
        return keras_sparse.StorageOption(storage_type)
    first = int(num_keys * share * (RECORD_BYTES + BESIDE_A_ROW))
    last = num_keys * (RECORD_BYTES + 64) * 2
    return keras_sparse.StorageOption(storage_type, folder, [first, last])


def import_rows(table, num_keys):
    """Gives every key its row."""
    ranks = np.random.default_rng(1).permutation(num_keys)
    rows = np.random.default_rng(2).normal(size=(CHUNK, DIM)).astype(np.float32)
    for start in range(0, num_keys, CHUNK):
        keys = workloads.scramble(ranks[start : start + CHUNK])
        table.import_(keys, rows[: len(keys)])


class Trained:
    """A dynamic table, and its training step: lookup, gradient, update with Adagrad."""

    def __init__(self, storage=None):
        import tensorflow as tf

        import keras_sparse

        self.table = keras_sparse.EmbeddingVariable(None, DIM, seed=1, storage=storage)
        optimizer = keras_sparse.optimizers.Adagrad(0.01)
        optimizer.build([self.table])

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64), tf.TensorSpec([None, DIM])])
        def step(ids, grads):
            with tf.GradientTape() as tape:
                (rows,) = keras_sparse.ops.lookup([self.table], [ids])
            grads = tape.gradient([rows], [self.table], output_gradients=[grads])
            optimizer.apply(grads, [self.table])

        self.step = step
