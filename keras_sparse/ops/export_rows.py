import tensorflow as tf

from keras_sparse.ops import _native
from keras_sparse.ops.check_tables import handles_of


def export_rows(variables, cursors, max_rows):
    """Reads the next piece of each table.

    Args:
        variables: List of `EmbeddingVariable`.
        cursors: int64 tensor of shape `(num_tables,)`: zeros at first, then what the call before
            returned. -1 stands for a table that is all out, which gives an empty piece.
        max_rows: Integer. A piece is about this long.

    Returns:
        `(keys, records, ages, next_cursors)`: a list of int64 tensors of shape `(n,)`; a list of
        float32 tensors of shape `(n, record_floats)`, a record being the row, then its slots, both
        with the moves of the steps that they have missed; a list of uint32 tensors of shape `(n,)`,
        how many steps ago each row had its last gradient, or `(0,)` of a table that does not keep
        it; an int64 tensor of shape `(num_tables,)`.

    Raises:
        tf.errors.FailedPreconditionError: A table has changed since the piece before.
    """
    return _native.lib.keras_sparse_export(
        handles=handles_of(variables),
        cursors=cursors,
        max_rows=tf.constant(max_rows, tf.int64),
    )
