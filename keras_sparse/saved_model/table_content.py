import numpy as np
import tensorflow as tf

from keras_sparse.saved_model.chosen_keys import chosen_keys
from keras_sparse.saved_model.export_options import current_options
from keras_sparse.saved_model.file_array import FileArray
from keras_sparse.saved_model.saved_model_scope import current_save
from keras_sparse.utils.byte_sizes import CHUNK_BYTES
from keras_sparse.utils.progress_bar import Progress


class TableContent:
    """What a table is when it is saved, in arrays that are taken one by one.

    All of them are from one reading of the table, which the first one causes.

    Args:
        find_table: Function without arguments that returns the `LocalTable`.
    """

    def __init__(self, find_table):
        self._find_table = find_table

    def rows(self):
        """Returns a float32 tensor of shape `(n, output_dim)`; of a dynamic table one more, zeros
        before the others: `(n + 1, output_dim)`.
        """
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
        rows = FileArray((num_rows + is_dynamic, output_dim), np.float32)
        rows.array[:is_dynamic] = 0
        places_of_rows = rows.array[is_dynamic:]
        arrays = {"rows": rows}
        if is_dynamic:
            arrays |= {name: FileArray((num_rows,), np.int64) for name in ("keys", "places")}
        progress = Progress(num_rows, "thousand rows", 1000, current_save().is_verbose)
        done = 0
        for places, keys, piece in placed_rows(table, current_options().rows):
            places_of_rows[places] = piece
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
