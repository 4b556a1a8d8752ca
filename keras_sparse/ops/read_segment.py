import tensorflow as tf

from keras_sparse.ops import _native


def read_segment(path, record_words, first, is_alive):
    """Reads entries of a file that `link_files` has made.

    Args:
        path: String.
        record_words: Integer. Width of a record in units of four bytes.
        first: Integer. The entry to begin with.
        is_alive: Boolean array of shape `(n,)`: which of the entries from there on to give.

    Returns:
        `(keys, records)` as `export_raw`, `n` at most.

    Raises:
        tf.errors.DataLossError: An entry is damaged.
        tf.errors.InvalidArgumentError: The file is none of such records.
    """
    return _native.lib.keras_sparse_read_segment(
        path=path,
        record_words=tf.constant(record_words, tf.int64),
        first=tf.constant(first, tf.int64),
        is_alive=is_alive,
    )
