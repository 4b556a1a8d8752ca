import numpy as np
import tensorflow as tf

from keras_sparse.optimizers.support.table_gradient import merge
from keras_sparse.optimizers.support.table_gradient import TableGradient


class AccumulatedRows:
    """The gradients of a table's rows since it was last updated, merged (see `merge_gradients`).

    They are no variables of the optimizer, whose files have values of fixed shapes: checkpoints
    save them with the table, and files of Keras are without them.

    Args:
        table: `LocalTable`.
    """

    def __init__(self, table):
        width = table.output_dim
        self._device = table.native.device  # where gradients are merged
        with tf.init_scope(), tf.device(self._device):
            self._none = tf.zeros([0], tf.int64), tf.zeros([0, width])
            self.ids, self.values = (
                tf.Variable(none, trainable=False, shape=shape)
                for none, shape in zip(self._none, ([None], [None, width]), strict=True)
            )

    def __len__(self):
        return int(tf.size(self.ids))

    def ids_with(self, gradient):
        """Returns the ids of these rows, and of those of a step behind them."""
        with tf.device(self._device):
            return tf.concat([self.ids, gradient.ids], 0)

    def plus(self, gradient):
        """Returns the `TableGradient` of these rows and of those of a step, which is merged."""
        with tf.device(self._device):
            values = tf.concat([self.values, gradient.values], 0)
        return TableGradient(gradient.variable, self.ids_with(gradient), values)

    def assign(self, ids, values):
        """Replaces them, by int64 ids `(n,)` and float32 values `(n, output_dim)`."""
        self.ids.assign(ids)
        self.values.assign(values)

    def clear(self):
        self.assign(*self._none)

    def drop(self, keys=None):
        """Forgets the gradients of some keys, an int64 tensor of shape `(n,)`, or of all."""
        if keys is None:
            self.clear()
            return
        with tf.init_scope(), tf.device(self._device):
            are_kept = ~np.isin(self.ids, keys)
            self.assign(*(tf.boolean_mask(each, are_kept) for each in (self.ids, self.values)))


def add_accumulated(accumulated, gradients):
    """Returns the sums of what tables have accumulated and of the gradients of a step.

    Args:
        accumulated: List of `AccumulatedRows`.
        gradients: List of `TableGradient`, merged.

    Returns:
        List of `TableGradient`, merged.
    """
    pairs = zip(accumulated, gradients, strict=True)
    return merge([each.plus(gradient) for each, gradient in pairs])
