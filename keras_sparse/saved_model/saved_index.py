import tensorflow as tf


class SavedIndex(tf.lookup.experimental.MutableHashTable):
    """A hash table from int64 keys to int64 values, which is filled where a SavedModel is loaded.

    Here it is empty: a save writes the keys and values that it is given. It takes any key; of
    those of TensorFlow that one needs no key for itself, and keeps nothing twice once it is loaded.

    Args:
        content: Function without arguments that returns `(keys, values)`: int64 tensors of shape
            `(n,)`.
        default_value: Integer: the value of other keys.
    """

    def __init__(self, content, default_value):
        super().__init__(tf.int64, tf.int64, default_value)
        self._content = content

    def lookup(self, keys, name=None):
        """Returns the value of each key, in a tensor of the shape of `keys`."""
        values = super().lookup(keys, name)
        values.set_shape(keys.shape)  # in a graph TensorFlow says nothing of it
        return values

    def _serialize_to_tensors(self):
        # In a graph this is what a loaded one is saved with.
        if not tf.executing_eagerly():
            return super()._serialize_to_tensors()
        keys, values = self._content()
        return {"-keys": keys, "-values": values}
