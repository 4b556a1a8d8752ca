from keras_sparse.distribute.ranks import runtime


def init(global_batch_size=None):
    """Joins the other ranks of a training, as `sparse_operation_kit.Init` does.

    It is `keras_sparse.distribute.init`, and not needed either: what asks for ranks calls it by
    itself. To call it again does nothing.

    Args:
        global_batch_size: Integer. Taken, so that a call of SOK serves, and not needed: a batch may
            be of another size in each step and on each rank. Defaults to `None`.

    Raises:
        ImportError: A launcher started several ranks and Horovod is not installed.

    Example:
    >>> keras_sparse.init(global_batch_size=65536)
    """
    runtime.init()
