import tensorflow as tf

from keras_sparse.saved_model.saved_model_scope import is_looking_for_resources


@tf.function(input_signature=[], autograph=False)
def _do_nothing():
    return 1


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
        self._value_of_others = default_value

    def lookup(self, keys, name=None):
        """Returns the value of each key, in a tensor of the shape of `keys`."""
        # A constant: each tensor that a function captures costs time in each call of it.
        default = tf.constant(self._value_of_others, tf.int64)
        values = super().lookup(keys, default, name)
        values.set_shape(keys.shape)  # in a graph TensorFlow says nothing of it
        return values

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        if is_looking_for_resources():
            return {}  # which TensorFlow would trace
        children = super()._trackable_children(save_type, **kwargs)
        shared = children.keys() & {"_initialize", "_destroy_resource"}  # of all indexes
        return {**children, **dict.fromkeys(shared, _do_nothing)}

    def _serialize_to_tensors(self):
        # In a graph this is what a loaded one is saved with.
        if not tf.executing_eagerly():
            return super()._serialize_to_tensors()
        keys, values = self._content()
        return {"-keys": keys, "-values": values}
