import tensorflow as tf

from keras_sparse.ops import _native
from keras_sparse.ops.check_tables import handles_of


def snapshot_versions(variables):
    """Returns the state that each table is in.

    Args:
        variables: List of `EmbeddingVariable`.

    Returns:
        `(versions, is_everything_changed)`: int64 and boolean tensors of shape `(num_tables,)`. A
        version changes with the rows; a table that was never marked as saved, or was cleared since,
        counts as changed in all its rows.
    """
    return _native.lib.keras_sparse_snapshot_versions(handles=handles_of(variables))


def export_raw(variable, cursor, max_rows, only_changed=False, only_unlinked=False):
    """Reads the next records of a table as they lie in its tiers.

    Args:
        variable: `EmbeddingVariable`.
        cursor: Integer: 0 at first, then what the call before returned; -1 is the end.
        max_rows: Integer. A piece is about this long.
        only_changed: Boolean. Whether to leave out rows that are as `mark_saved` has found them.
        only_unlinked: Boolean. Whether to leave out rows that are in the files of `link_files`.

    Returns:
        `(keys, records, next_cursor)`: an int64 tensor of shape `(n,)`; a float32 tensor of shape
        `(n, record_words)`: row, slots, then the bits of the record's uint32 step words, with
        moves that are pending not made; an integer tensor.

    Raises:
        tf.errors.FailedPreconditionError: The table has changed since the piece before.
    """
    return _native.lib.keras_sparse_export_raw(
        handles=[variable.native],
        cursor=tf.constant(cursor, tf.int64),
        max_rows=tf.constant(max_rows, tf.int64),
        only_changed=only_changed,
        only_unlinked=only_unlinked,
    )


def erased_keys(variables):
    """Returns the keys whose rows have gone since each table was marked as saved.

    Args:
        variables: List of `EmbeddingVariable`.

    Returns:
        List of int64 tensors of shape `(n,)`. Keys that have rows again are not there.
    """
    return _native.lib.keras_sparse_erased_keys(handles=handles_of(variables))


def link_files(variable, path_prefix):
    """Gives the files that a table's lower tiers keep rows in a second name each.

    Nothing in these files changes any more, so that they need not be copied.

    Args:
        variable: `EmbeddingVariable`.
        path_prefix: String. What the second names begin with, folder and all.

    Returns:
        `(paths, num_entries, alive)`: tensors of the second names and of the entries in each file,
        `(n,)`; and for all files one after the other, each from a whole byte on, a uint8 tensor
        with a bit an entry, the lowest first: whether it is a row of the table.

    Raises:
        tf.errors.FailedPreconditionError: A file cannot be linked; the path may be on another file
            system than the tier. Some files may have been.
    """
    return _native.lib.keras_sparse_link_files(handles=[variable.native], path_prefix=path_prefix)


def mark_saved(variables, versions):
    """Lets the changes of all tables count from here.

    Args:
        variables: List of `EmbeddingVariable`.
        versions: int64 tensor of shape `(num_tables,)`: of the tables that were saved.

    Raises:
        tf.errors.FailedPreconditionError: A table is not as it was saved. Nothing is done then.
    """
    return _native.lib.keras_sparse_mark_saved(handles=handles_of(variables), versions=versions)
