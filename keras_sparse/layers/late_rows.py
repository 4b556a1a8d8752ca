import tensorflow as tf


class LateRows:
    """The output of a layer that is looked up when it is first used; then it is a tensor.

    TensorFlow and Keras take it wherever they take a tensor (`__tf_tensor__` of TensorFlow's
    protocol), and Python's operators and a tensor's methods work on it.

    Args:
        look_up: Function that is called at first use, and calls `set`.
        shape: `tf.TensorShape`, what is known of it.
        dtype: `tf.DType`.
    """

    def __init__(self, look_up, shape, dtype):
        self._look_up = look_up
        self._tensor = None
        self.shape = shape
        self.dtype = dtype

    def set(self, tensor):
        """Gives it what it stands for."""
        self._tensor = tensor
        self.shape = tensor.shape

    def tensor(self):
        """Returns the tensor, which is looked up now at the latest."""
        if self._tensor is None:
            self._look_up()
        return self._tensor

    def __tf_tensor__(self, dtype=None, name=None):
        return tf.convert_to_tensor(self.tensor(), dtype, name=name)

    def __array__(self, *args, **kwargs):
        return self.tensor().__array__(*args, **kwargs)

    def __getattr__(self, name):
        if name.startswith("__"):  # asked for by copies and pickles of what is not made yet
            raise AttributeError(name)
        return getattr(self.tensor(), name)

    def __repr__(self):
        return "<LateRows>" if self._tensor is None else repr(self._tensor)


def _delegate(operator):
    def apply(self, *args):
        return getattr(self.tensor(), operator)(*args)

    return apply


for _operator in (*tf.Tensor.OVERLOADABLE_OPERATORS, "__len__", "__iter__", "__bool__"):
    setattr(LateRows, _operator, _delegate(_operator))
LateRows.__hash__ = object.__hash__  # type: ignore[method-assign]
