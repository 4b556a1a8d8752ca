import functools

import tensorflow as tf


@functools.cache
def _has_gpu():
    # Those that the process may have: it does not begin to use them.
    return bool(tf.config.list_physical_devices("GPU"))


def on_cpu(function):
    """Decorates a function whose ops are to stand where ids and what ranks send are: on the CPU.

    TensorFlow puts what nothing ties to a device on a GPU, where there is one. Ids would go there
    to be reshaped, and come back to be looked up, at every step. Ops that use tables in a GPU's
    memory run there all the same.
    """

    @functools.wraps(function)
    def run(*args, **kwargs):
        if not _has_gpu():
            return function(*args, **kwargs)
        with tf.device("CPU"):
            return function(*args, **kwargs)

    return run


@on_cpu
def constant(values, dtype):
    """Returns a tensor of a tuple of numbers, as `tf.constant` does.

    Where ops run at once it is made once: making it takes longer than many an op.
    """
    return _made_once(values, dtype) if tf.executing_eagerly() else tf.constant(values, dtype)


@functools.lru_cache(maxsize=4096)
def _made_once(values, dtype):
    return tf.constant(values, dtype)
