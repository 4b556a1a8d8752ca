import tensorflow as tf

from keras_sparse.ops import _native
from keras_sparse.ops._initializers import initializer_attributes
from keras_sparse.ops.check_tables import handles_of


def set_initial_rows(variables, initial_rows):
    """Changes what the rows that the tables do not hold read as, and what `clear` goes back to.

    Rows that are held stay as they are.

    Args:
        variables: List of `EmbeddingVariable`.
        initial_rows: List of `keras_sparse.initial_rows.InitialRows`, one a variable.
    """
    with tf.init_scope():
        _native.lib.keras_sparse_set_initial_rows(
            handles=handles_of(variables),
            **initializer_attributes(initial_rows),
        )
