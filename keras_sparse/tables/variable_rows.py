import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from keras_sparse import native
from keras_sparse.tables.copy_table import copy_table
from keras_sparse.tables.initial_rows import rows_in_chunks
from keras_sparse.tables.row_metadata import RowMetadata
from keras_sparse.tables.row_piece import RowPiece
from keras_sparse.tables.table_part import TablePart
from keras_sparse.utils import checks
from keras_sparse.utils.byte_sizes import CHUNK_BYTES

# A first tier that is full makes room for as many rows as have come at once.
_PROMOTED_PIECES = 64
_LEAST_PROMOTED = 256


class VariableRows:
    """How all rows of a table, or some by their keys, get out of an embedding variable and in."""

    path: str
    shape: Any
    input_dim: Any
    output_dim: int
    record_floats: int
    part: Any
    admission: Any
    eviction: Any
    frequency: bool
    initializer: Any
    initial_rows: Any
    loaded_state: Any
    rule_owner: Any
    # Whether the native table cannot make the initial rows itself.
    _imports_initial_rows: bool

    @property
    def metadata(self):
        """`RowMetadata`: what the table keeps of each row beside the row and its slots."""
        policy = self.eviction
        if policy is None:
            return RowMetadata(frequencies=self.frequency)
        unit = "seconds" if policy.ages_in_seconds else "steps"
        return RowMetadata(
            unit if policy.needs_ages else None, self.frequency or policy.needs_frequencies
        )

    def export(self, chunk_rows=65536, with_ages=False, with_frequencies=False):
        """Yields all rows in pieces of about `chunk_rows`.

        Of a table that is spread over ranks each has its part: ids are those of the whole table,
        and rows have the columns of the part.

        Args:
            chunk_rows: Integer. Defaults to 65536.
            with_ages: Boolean. Whether to yield the age of each row too, as the table's policy
                counts it: in steps, or with `keras_sparse.TimeToLive` in seconds. Defaults to
                `False`.
            with_frequencies: Boolean. Whether to yield too in how many training steps each row had
                a gradient. Defaults to `False`.

        Yields:
            `(keys, records)`: arrays of int64, `(n,)`, and float32, `(n, record_floats)`: the row,
            then its slots, as they are after all steps. With ages, with frequencies, or with both,
            in this order, also an array of uint32, `(n,)`, of each, or `None` if the table does not
            keep them.

        Raises:
            tf.errors.FailedPreconditionError: The table has changed since the piece before.
        """
        for piece in self.export_pieces(chunk_rows):
            yield piece.selected(with_ages, with_frequencies)

    def export_pieces(self, chunk_rows):
        """Yields all rows, as `export` does, each time a `RowPiece`."""
        part = TablePart.of_whole(self)
        for piece in self._export_local(chunk_rows):
            yield piece._replace(keys=part.global_ids(piece.keys))

    def _export_local(self, chunk_rows):
        """Does what `export_pieces` does, with the ids of static rows counted here."""
        cursors = np.zeros(1, np.int64)
        while cursors[0] >= 0:
            with tf.init_scope():
                *lists, cursors = native.export_rows([self], cursors, chunk_rows)
            cursors = cursors.numpy()
            keys, records, *kept = (each.numpy() for (each,) in lists)
            if len(keys):
                yield RowPiece(keys, records, *(each if len(each) else None for each in kept))

    def export_filter(self, max_entries):
        """Yields what the admission filter remembers, in pieces of about `max_entries`.

        Yields:
            `(keys, counts)`: arrays of int64 and of uint32, `(n,)`.
        """
        cursors = np.zeros(1, np.int64)
        while self.admission is not None and cursors[0] >= 0:
            with tf.init_scope():
                keys, counts, cursors = native.export_filter([self], cursors, max_entries)
            cursors = cursors.numpy()
            if len(keys[0]):
                yield keys[0].numpy(), counts[0].numpy()

    def import_(self, keys, records, ages=None, frequencies=None):
        """Writes rows, creating those that are not there.

        Of a table that is spread over ranks by rows, each rank keeps the rows that it owns and
        drops the others: give all ranks all rows, or each those of the ranks that it knows of. Of
        one that is spread by columns, a rank takes the columns of its part.

        Args:
            keys: int64 array of shape `(n,)`: keys, or ids of the whole table.
            records: float32 array: rows, `(n, output_dim)`, or whole records as `export` gives
                them. Rows alone leave the slots of existing rows as they are.
            ages: uint32 array of shape `(n,)`, as `export` of a table with ages in the same unit
                gives them. A table that keeps no ages drops them. Defaults to `None`: the rows have
                age 0.
            frequencies: uint32 array of shape `(n,)`, as `export` gives them, likewise. Defaults to
                `None`: existing rows keep theirs, new rows have 0.
        """
        keys = _as_int64(keys)
        records = tf.convert_to_tensor(records, tf.float32)
        ages = checks.uint32_array(ages, "ages")
        frequencies = checks.uint32_array(frequencies, "frequencies")
        if self.part is not None and self.part.num_shards > 1:
            self._check_ids(keys)
            held = self.part.holds(keys)
            keys = self.part.local_ids(tf.boolean_mask(keys, held))
            records = tf.boolean_mask(records, held)
            ages = None if ages is None else tf.boolean_mask(ages, held)
            frequencies = None if frequencies is None else tf.boolean_mask(frequencies, held)
        self.import_local(keys, records, ages, frequencies)

    def _check_ids(self, ids):
        """Raises unless ids are in the whole static table: one past it may be another rank's."""
        if self.part.input_dim is not None:
            tf.debugging.Assert(
                tf.reduce_all((ids >= 0) & (ids < self.part.input_dim)),
                [
                    f"id must be in [0, {self.part.input_dim}) for table '{self.path}'. Received:",
                    ids,
                ],
            )

    def promote(self, keys):
        """Brings rows from lower tiers into the first one, as their next gradient would.

        Lookups move nothing. So a process that only predicts has its hot rows in the first tier
        when it has named them here.

        Args:
            keys: int64 array of shape `(n,)`: keys, or ids of the whole table, the hottest last.
                Where not all fit, the last ones stay. Those without a row are left out.

        Returns:
            Integer. How many rows came.
        """
        keys = tf.reshape(_as_int64(keys), [-1])
        if self.part is not None and self.part.num_shards > 1:
            self._check_ids(keys)
            keys = tf.boolean_mask(keys, self.part.holds(keys))
        # One after the other, so that the first tier knows which are the last.
        piece = max(_LEAST_PROMOTED, len(keys) // _PROMOTED_PIECES)
        num_promoted = 0
        for first in range(0, len(keys), piece):
            with tf.init_scope():
                came, versions = native.promote_rows([self], [keys[first : first + piece]])
            num_promoted += int(came[0])
            before, after = versions[0].numpy().tolist()
            # The rows are still what they were loaded as.
            if self.loaded_state is not None and self.loaded_state.version == before:
                self.loaded_state = dataclasses.replace(self.loaded_state, version=after)
        return num_promoted

    @property
    def accumulated(self):
        """`AccumulatedRows` that the optimizer keeps of this table, or `None`."""
        owner = None if self.rule_owner is None else self.rule_owner()
        return None if owner is None else owner.accumulated_rows(self)

    def forget_accumulated(self, keys=None):
        """Lets the optimizer forget gradients of rows that are replaced, or of some that go."""
        if (accumulated := self.accumulated) is not None:
            accumulated.drop(keys)

    def import_local(self, keys, records, ages=None, frequencies=None):
        """Imports rows that are this part's, with the ids of static ones counted here."""
        native.import_rows(
            [self],
            [tf.convert_to_tensor(keys, tf.int64)],
            [tf.convert_to_tensor(records, tf.float32)],
            None if ages is None else [tf.convert_to_tensor(ages, tf.uint32)],
            None if frequencies is None else [tf.convert_to_tensor(frequencies, tf.uint32)],
        )

    def _import_initial_rows(self):
        if not self._imports_initial_rows:
            return
        input_dim, output_dim = self.whole_shape()
        # A part is cut out of the whole table, whose shape an initializer may look at.
        chunk_rows = max(1, CHUNK_BYTES // (4 * output_dim))
        for first, rows in rows_in_chunks(self.initializer, input_dim, output_dim, chunk_rows):
            if self.part is not None:
                first, rows = self.part.cut(first, rows)
            self.import_local(np.arange(first, first + len(rows)), rows)

    def whole_shape(self):
        """Returns `(input_dim, output_dim)` of the whole table, which this may have a part of."""
        whole = self if self.part is None else self.part
        return whole.input_dim, whole.output_dim

    def _of_part(self, initial_rows):
        return initial_rows if self.part is None else self.part.initial_rows(initial_rows)

    def set_initial_rows(self, initial_rows):
        """Changes what keys without a row read as.

        Args:
            initial_rows: `keras_sparse.tables.initial_rows.InitialRows` of the whole table.
        """
        if initial_rows != self.initial_rows:
            native.set_initial_rows([self], [self._of_part(initial_rows)])
            self.initial_rows = initial_rows

    def take_initial_rows(self, other):
        """Lets keys without a row, and a cleared table, read as those of another variable."""
        self.initializer = other.initializer
        self._imports_initial_rows = other._imports_initial_rows
        self.set_initial_rows(other.initial_rows)

    def __deepcopy__(self, memo):
        return copy_table(self)

    def clear(self):
        """Takes the table back to before training: no rows, or each row its initial one."""
        native.clear_tables([self])
        self.forget_accumulated()
        self._import_initial_rows()

    def numpy(self):
        """Returns the rows of a static table: float32 array of shape `(input_dim, output_dim)`."""
        self._refuse_dynamic("read as one array")
        rows = np.empty((self.input_dim, self.output_dim), np.float32)
        for piece in self._export_local(max(1, CHUNK_BYTES // (4 * self.record_floats))):
            rows[piece.keys] = piece.records[:, : self.output_dim]
        return rows

    def assign(self, value):
        """Writes all rows of a static table. Slots stay as they are, as in Keras.

        Args:
            value: Array, tensor or static `EmbeddingVariable` of shape `(input_dim, output_dim)`.
        """
        self._refuse_dynamic("assigned")
        value = np.asarray(value) if isinstance(value, (list, tuple, VariableRows)) else value
        if tuple(value.shape) != (self.input_dim, self.output_dim):
            raise ValueError(
                f"`value` must have the variable's shape {tuple(self.shape)}. Received: "
                f"value.shape={tuple(value.shape)} for '{self.path}'"
            )
        chunk_rows = max(1, CHUNK_BYTES // (4 * self.output_dim))
        for first in range(0, self.input_dim, chunk_rows):
            end = min(first + chunk_rows, self.input_dim)
            self.import_local(np.arange(first, end), tf.cast(value[first:end], tf.float32))
        return value

    def _refuse_dynamic(self, action):
        if self.input_dim is None:
            raise NotImplementedError(
                f"A dynamic table cannot be {action}, as its keys are not a range. To keep the "
                "best weights of a run use `keras.callbacks.ModelCheckpoint(path, "
                "save_best_only=True)`, then `model.load_weights(path)`; for single rows use "
                "`export` and `import_`. A layer of your own saves it by "
                "`keras_sparse.saving.save_table`. "
                f"Received: variable '{self.path}'"
            )


def _as_int64(keys):
    keys = tf.convert_to_tensor(keys)
    if not keys.dtype.is_integer:
        raise TypeError(f"`keys` must be integers. Received: keys of dtype {keys.dtype.name}")
    return tf.cast(keys, tf.int64)
