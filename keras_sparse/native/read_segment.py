import ctypes
import os

import numpy as np
import tensorflow as tf

from keras_sparse.native import library as _native

_MESSAGE_BYTES = 4096
# By the numbers of StatusCode in ops/core/base/status.h.
_ERRORS = {
    1: tf.errors.InvalidArgumentError,
    2: tf.errors.FailedPreconditionError,
    3: tf.errors.ResourceExhaustedError,
    4: tf.errors.DataLossError,
}


def read_segment(path, record_words, first, is_alive):
    """Reads entries of a file that `link_files` has made.

    It starts nothing of TensorFlow: a process that has only checked files may be forked.

    Args:
        path: Path of the file.
        record_words: Integer. Width of a record in units of four bytes.
        first: Integer. The entry to begin with.
        is_alive: Boolean array of shape `(n,)`: which of the entries from there on to give.

    Returns:
        `(keys, records)` as arrays: what `export_raw` gives, `n` at most.

    Raises:
        tf.errors.DataLossError: An entry is damaged.
        tf.errors.InvalidArgumentError: The file is none of such records.
    """
    is_alive = np.ascontiguousarray(is_alive, bool)
    keys = np.empty(np.count_nonzero(is_alive), np.int64)
    records = np.empty((len(keys), record_words), np.float32)
    message = ctypes.create_string_buffer(_MESSAGE_BYTES)
    pointers = (each.ctypes.data_as(ctypes.c_void_p) for each in (is_alive, keys, records))
    is_alive_pointer, keys_pointer, records_pointer = pointers
    number = _native.read_segment(
        os.fsencode(path),
        record_words,
        first,
        is_alive_pointer,
        len(is_alive),
        keys_pointer,
        records_pointer,
        message,
        _MESSAGE_BYTES,
    )
    if number < 0:
        error = _ERRORS.get(-1 - number, tf.errors.InternalError)
        raise error(None, None, message.value.decode(errors="replace"))
    return keys[:number], records[:number]
