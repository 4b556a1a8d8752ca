from keras_sparse.distribute.ranks import runtime


def init(global_batch_size=None):
    """Joins the other ranks of a training, as `sparse_operation_kit.Init` does.

    The function calls `keras_sparse.distribute.init`. Calling it is optional, because functions
    that need ranks join them. Further calls do nothing.

    Args:
        global_batch_size: Integer. Ignored; accepted so that a call for SparseOperationKit works.
            The batch size may differ in each step and on each rank. Defaults to `None`.

    Raises:
        ImportError: A launcher started several ranks, and Horovod is not installed.

    Example:
    >>> keras_sparse.init(global_batch_size=65536)
    """
    runtime.init()
