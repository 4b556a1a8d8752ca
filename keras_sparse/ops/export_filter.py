import tensorflow as tf

from keras_sparse.ops import _native
from keras_sparse.ops.check_tables import handles_of


def export_filter(variables, cursors, max_entries):
    """Reads the next piece of what each table's admission filter remembers.

    Args:
        variables: List of `EmbeddingVariable`.
        cursors: int64 tensor of shape `(num_tables,)`: zeros at first, then what the call before
            returned. -1 stands for a filter that is all out, which gives an empty piece.
        max_entries: Integer. A piece is about this long.

    Returns:
        `(keys, counts, next_cursors)`: lists of int64 and of uint32 tensors of shape `(n,)`, whose
        meaning is the filter's own (docs/formats/table.md), both empty for a table without one; an
        int64 tensor of shape `(num_tables,)`.

    Raises:
        tf.errors.FailedPreconditionError: A table has changed since the piece before.
    """
    return _native.lib.keras_sparse_export_filter(
        handles=handles_of(variables),
        cursors=cursors,
        max_entries=tf.constant(max_entries, tf.int64),
    )
