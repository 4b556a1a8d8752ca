import tensorflow as tf

from keras_sparse.native import library as _native
from keras_sparse.native._initializers import initializer_attributes


def set_initial_rows(variables, initial_rows):
    """Changes what the rows that the tables do not hold read as, and what `clear` goes back to.

    Rows that are held stay as they are.

    Args:
        variables: List of `EmbeddingVariable`.
        initial_rows: List of `keras_sparse.tables.initial_rows.InitialRows`, one a variable.
    """
    with tf.init_scope():
        _native.lib.keras_sparse_set_initial_rows(
            handles=[variable.native for variable in variables],
            **initializer_attributes(initial_rows),
        )
