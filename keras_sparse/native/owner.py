import os
import weakref

from tensorflow.python.eager import context

from keras_sparse.native import library


class Owner:
    """Holds a native object; when Python lets this go, the object goes.

    A handle alone would not do: TensorFlow keeps graphs, and a graph its handles, for as long as it
    likes: those of a custom gradient until the process ends. Ops that are at work end with the
    object as it was; later ones raise `tf.errors.FailedPreconditionError`.

    Args:
        handle: Eager scalar tensor of dtype resource: of a table or a vocabulary.
    """

    def __init__(self, handle):
        weakref.finalize(self, _drop, handle, os.getpid())

    def __deepcopy__(self, memo):
        return self  # as a copied handle is of the same object


def _drop(handle, process):
    # In a forked child TensorFlow's threads are missing, and the files are the parent's.
    if os.getpid() == process:
        # Wherever garbage is collected: perhaps while a graph is made.
        with context.eager_mode():
            library.lib.keras_sparse_drop(handle=handle)
