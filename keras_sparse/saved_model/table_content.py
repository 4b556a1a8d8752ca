import contextlib
import errno
import os
import pathlib
import tempfile

import numpy as np
import tensorflow as tf

from keras_sparse.saved_model.chosen_keys import chosen_keys
from keras_sparse.saved_model.export_options import current_options
from keras_sparse.saved_model.row_encoding import RowRefusedError
from keras_sparse.saved_model.saved_model_scope import current_save
from keras_sparse.utils.byte_sizes import bytes_text
from keras_sparse.utils.byte_sizes import CHUNK_BYTES
from keras_sparse.utils.progress_bar import Progress


class FileArray:
    """An array that may be larger than memory, to be filled in pieces and written as a tensor.

    Where the `Save` that runs has no memory left it is a file without a name beside the SavedModel,
    whose disk has to have room for it anyway, and which the system takes out of memory as it needs
    to.

    Args:
        shape: Tuple of integers.
        dtype: NumPy dtype.

    Attributes:
        array: `np.ndarray` of that shape and dtype.
    """

    def __init__(self, shape, dtype):
        num_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if num_bytes <= current_save().memory_bytes:
            current_save().memory_bytes -= num_bytes
            self.array = np.empty(shape, dtype)
            return
        with tempfile.TemporaryFile(dir=_folder()) as file:
            _reserve(file, num_bytes)
            self.array = np.memmap(file, dtype, "r+", shape=shape)

    def as_tensor(self):
        """Returns a tensor of the array, of a large one without a copy."""
        if not isinstance(self.array, np.memmap):
            return tf.convert_to_tensor(self.array)
        dtype = tf.as_dtype(self.array.dtype)
        # NumPy hands over no bfloat16.
        array = self.array.view(np.uint16) if dtype == tf.bfloat16 else self.array
        return tf.bitcast(tf.experimental.dlpack.from_dlpack(array.__dlpack__()), dtype)


def _folder():
    """Returns a folder on the disk of the SavedModel, or `None` for that of temporary files."""
    if "://" in current_save().export_dir:
        return None
    folder = pathlib.Path(current_save().export_dir).absolute()
    return next((each for each in (folder, *folder.parents) if each.is_dir()), None)


def _reserve(file, num_bytes):
    """Takes the room on disk at once: a write to mapped memory without any ends the process."""
    try:
        os.posix_fallocate(file.fileno(), 0, num_bytes)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        with contextlib.suppress(OSError):
            file.truncate(0)
        raise OSError(
            error.errno,
            "The disk of a SavedModel must have room for its tables twice while it is written. "
            f"Free some, or write it to another disk. Received: too little room for another "
            f"{bytes_text(num_bytes)}",
            str(_folder() or tempfile.gettempdir()),
        ) from None


class TableContent:
    """What a table is when it is saved, in arrays that are taken one by one.

    All of them are from one reading of the table, which the first one causes.

    Args:
        find_table: Function without arguments that returns the `LocalTable`.
        encoding: `RowEncoding` of its rows.
    """

    def __init__(self, find_table, encoding):
        self._find_table = find_table
        self._encoding = encoding

    def rows(self):
        """Returns a tensor of n encoded rows; of a dynamic table n + 1, the first one of zeros."""
        return self._take("rows")

    def num_rows(self):
        """Returns how many rows it has, an integer."""
        table, choice = self._find_table(), current_options().rows
        if choice is None or not table.is_dynamic:
            return table.num_rows
        return min(table.num_rows, choice.num_rows)

    def index(self):
        """Returns the keys of a dynamic table and the places of their rows: `(n,)`, int64."""
        return self._take("keys"), self._take("places")

    def read(self):
        """Reads the table for the `Save` that runs, before TensorFlow asks for it."""
        current_save().readings[self] = self._read()

    def _take(self, name):
        readings = current_save().readings
        if self not in readings:
            self.read()
        return readings[self].pop(name).as_tensor()

    def _read(self):
        table = self._find_table()
        num_rows, output_dim = self.num_rows(), table.output_dim
        is_dynamic = table.is_dynamic
        encoding = self._encoding
        shape = num_rows + is_dynamic, encoding.width(output_dim)
        rows = FileArray(shape, encoding.dtype)
        zeros = np.zeros((int(is_dynamic), output_dim), np.float32)
        rows.array[:is_dynamic] = encoding.encode(zeros)
        places_of_rows = rows.array[is_dynamic:]
        arrays = {"rows": rows}
        if is_dynamic:
            arrays |= {name: FileArray((num_rows,), np.int64) for name in ("keys", "places")}
        progress = Progress(num_rows, "thousand rows", 1000, current_save().is_verbose)
        done = 0
        for places, keys, piece in placed_rows(table, current_options().rows):
            places_of_rows[places] = self._encoded(keys, piece)
            if is_dynamic:
                arrays["keys"].array[places] = keys
                arrays["places"].array[places] = np.arange(places.start, places.stop) + 1
            done += len(keys)
            progress.add(len(keys))
        progress.close()
        if done != num_rows:
            raise RuntimeError(
                "A table must not change while it is saved. Received: "
                f"{done} rows of {num_rows} in variable '{table.path}'"
            )
        return arrays

    def _encoded(self, keys, rows):
        try:
            return self._encoding.encode(rows)
        except RowRefusedError as refused:
            table, key, row = self._find_table(), keys[refused.place], rows[refused.place]
            raise ValueError(
                f"The elements of a row must be {refused.rule} to be exported with `row_dtype="
                f"'{current_options().row_dtype}'`. Export with another `row_dtype`, or change the "
                f"row. Received: elements from {np.min(row):.6g} to {np.max(row):.6g} for "
                f"{'key' if table.is_dynamic else 'id'} {key} of variable '{table.path}'"
            ) from None


def default_row():
    """Returns what keys without a row read as: a float32 tensor; NaN for their initial rows."""
    default = current_options().default
    # An array: of a number TensorFlow may give an equal one that it has kept, 0.0 for -0.0.
    return tf.constant(np.array(np.nan if default is None else default, np.float32))


def placed_rows(table, choice=None):
    """Yields all rows of a table in pieces, with their places in an array of them.

    Args:
        table: `LocalTable`.
        choice: `RowChoice`: which rows of a dynamic table are taken. Defaults to `None`: all.

    Yields:
        `(places, keys, rows)`: a slice for a dynamic table, whose rows come one after the other, or
        the ids of a static one; int64 array of shape `(n,)`; float32 array of shape `(n,
        output_dim)`.
    """
    chunk_rows = max(1, CHUNK_BYTES // (4 * table.record_floats))
    is_limited = table.is_dynamic and choice is not None
    chosen = chosen_keys(table, choice, chunk_rows) if is_limited else None
    done = 0
    for keys, records in table.export(chunk_rows):
        rows = records[:, : table.output_dim]
        if chosen is not None:
            are_chosen = chosen.take(np.searchsorted(chosen, keys), mode="clip") == keys
            keys, rows = keys[are_chosen], rows[are_chosen]
        yield slice(done, done + len(keys)) if table.is_dynamic else keys, keys, rows
        done += len(keys)
