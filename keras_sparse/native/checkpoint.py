"""Ops and reading that checkpoints are made of."""

import ctypes
import os

import numpy as np
import tensorflow as tf

from keras_sparse.native import library
from keras_sparse.native.check_tables import check_tables
from keras_sparse.native.check_tables import handles_of
from keras_sparse.native.device_groups import on_each_device
from keras_sparse.native.rule_history import history_inputs


def snapshot_versions(variables):
    """Returns the state that each table is in.

    Args:
        variables: List of `EmbeddingVariable`.

    Returns:
        `(versions, is_everything_changed)`: int64 and boolean tensors of shape `(num_tables,)`. A
        version changes with the rows; a table that was never marked as saved, or was cleared since,
        counts as changed in all its rows.
    """
    check_tables(variables)
    return on_each_device(
        lambda tables: library.lib.keras_sparse_snapshot_versions(handles=handles_of(tables)),
        variables,
    )


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
    return library.lib.keras_sparse_export_raw(
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
    return library.lib.keras_sparse_erased_keys(handles=handles_of(variables))


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
    return library.lib.keras_sparse_link_files(handles=[variable.native], path_prefix=path_prefix)


def mark_saved(variables, versions):
    """Lets the changes of all tables count from here.

    Args:
        variables: List of `EmbeddingVariable`.
        versions: int64 tensor of shape `(num_tables,)`: of the tables that were saved.

    Raises:
        tf.errors.FailedPreconditionError: A table is not as it was saved. Nothing is done then for
            the tables of its device.
    """
    check_tables(variables)
    return on_each_device(
        lambda tables, of_tables: library.lib.keras_sparse_mark_saved(
            handles=handles_of(tables), versions=of_tables
        ),
        variables,
        versions,
    )


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
    number = library.read_segment(
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


def restore(variable, history):
    """Clears a table, which then goes on after the steps of a saved one.

    Records of that one can be imported with their steps, and are bit for bit what they were.

    Args:
        variable: `EmbeddingVariable` with the update rule of the saved table.
        history: `RuleHistory` of the saved table.

    Raises:
        tf.errors.InvalidArgumentError: It cannot be one of the rule.
    """
    return library.lib.keras_sparse_restore(handles=[variable.native], **history_inputs(history))


def apply_changes(variable, history, changes):
    """Brings a table from one state of a saved table to a later one, at once for all lookups.

    Args:
        variable: `EmbeddingVariable` with the update rule of the saved table.
        history: `RuleHistory` of the later state.
        changes: List of `(erased, keys, records)` with all changes in between, in order: int64
            arrays of shape `(m,)`, whose rows go, and `(n,)`, and float32 arrays of shape `(n,
            record_words)` as `export_raw` gives them, or `(n, record_floats)`, which come.

    Raises:
        tf.errors.InvalidArgumentError: The changes are of another rule, or the history does not go
            on from that of the table, which stays as it is.
    """
    erased, keys, records = zip(*changes, strict=True) if changes else ((), (), ())
    return library.lib.keras_sparse_apply_changes(
        handles=[variable.native],
        erased=[tf.convert_to_tensor(each, tf.int64) for each in erased],
        keys=[tf.convert_to_tensor(each, tf.int64) for each in keys],
        records=[tf.convert_to_tensor(each, tf.float32) for each in records],
        **history_inputs(history),
    )
