import numpy as np
import tensorflow as tf

from keras_sparse.optimizers.support.row_gradient import merge
from keras_sparse.optimizers.support.row_gradient import RowGradient


class AccumulatedRows:
    """The gradients of a table's rows since it was last updated, merged (see `merge_gradients`).

    They are no variables of the optimizer, whose files have values of fixed shapes: checkpoints
    save them with the table, and files of Keras are without them.

    Args:
        variable: `EmbeddingVariable`.
    """

    def __init__(self, variable):
        width = variable.output_dim
        self._device = variable.native.device  # where gradients are merged
        with tf.init_scope(), tf.device(self._device):
            self._none = tf.zeros([0], tf.int64), tf.zeros([0, width])
            self.ids, self.values = (
                tf.Variable(none, trainable=False, shape=shape)
                for none, shape in zip(self._none, ([None], [None, width]), strict=True)
            )

    def __len__(self):
        return int(tf.size(self.ids))

    def with_ids(self, rows):
        """Returns the `RowGradient` of these rows and those of a step."""
        with tf.device(self._device):
            return RowGradient(rows.variable, tf.concat([self.ids, rows.ids], 0))

    def with_values(self, values):
        """Returns their gradients, in the order of `with_ids`."""
        with tf.device(self._device):
            return tf.concat([self.values, values], 0)

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


def add_accumulated(accumulated, touched, values):
    """Returns the sums of what tables have accumulated and of the gradients of a step.

    Args:
        accumulated: List of `AccumulatedRows`.
        touched, values: As for `merge`, and merged.

    Returns:
        `(touched, values)`, merged.
    """
    joined = [each.with_ids(rows) for each, rows in zip(accumulated, touched, strict=True)]
    return merge(
        joined, [each.with_values(value) for each, value in zip(accumulated, values, strict=True)]
    )
