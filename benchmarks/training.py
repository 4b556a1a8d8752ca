"""A table under training, and a sample of its keys that shows whether its rows are right."""

import numpy as np

from benchmarks.memory import DIM


def make_gradients(num_ids):
    """Gradients of few bits each, so that their sums are exact in any order."""
    import tensorflow as tf

    units = tf.random.stateless_uniform((num_ids, DIM), (1, 2), -64, 65, tf.int32)
    return tf.cast(units, tf.float32) / 1024


class Trained:
    """A table, and its training step: lookup, gradient, update."""

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

    def rows_of(self, keys):
        import keras_sparse

        return keras_sparse.ops.lookup([self.table], [keys])[0].numpy()


class Sample:
    """Some keys, and a table in memory of these alone."""

    def __init__(self, keys):
        self.keys = np.unique(keys)
        self.trained = Trained()

    def step(self, ids, grads):
        """Trains on what a batch has of the sample."""
        import tensorflow as tf

        at = np.flatnonzero(np.isin(ids, self.keys))
        if len(at):
            self.trained.step(ids[at], tf.gather(grads, at))

    def count_equal(self, trained):
        """How many rows are the same, bit for bit, in a table of all keys."""
        rows = [each.rows_of(self.keys).view(np.int32) for each in (trained, self.trained)]
        return int(np.equal(*rows).all(axis=1).sum())
