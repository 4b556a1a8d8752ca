import tensorflow as tf

from keras_sparse.ops import _native


def set_initial_rows(variables, initial_rows):
    """Changes what the rows that the tables do not hold read as, and what `clear` goes back to.

    Rows that are held stay as they are.

    Args:
        variables: List of `EmbeddingVariable`.
        initial_rows: List of `keras_sparse.initial_rows.InitialRows`, one a variable.
    """
    with tf.init_scope():
        _native.lib.keras_sparse_set_initial_rows(
            handles=[variable.native for variable in variables],
            initializers=[rows.kind for rows in initial_rows],
            initializer_args=[arg for rows in initial_rows for arg in (rows.a, rows.b)],
            seeds=[rows.seed for rows in initial_rows],
        )
