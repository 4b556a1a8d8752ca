import functools

import tensorflow as tf

from keras_sparse.native.on_cpu import on_cpu


@on_cpu
def constant(values, dtype):
    """Returns a tensor of a tuple of numbers, as `tf.constant` does.

    Where ops run at once it is made once: making it takes longer than many an op.
    """
    return _made_once(values, dtype) if tf.executing_eagerly() else tf.constant(values, dtype)


@functools.lru_cache(maxsize=4096)
def _made_once(values, dtype):
    return tf.constant(values, dtype)
