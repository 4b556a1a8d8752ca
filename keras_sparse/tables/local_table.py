import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from keras_sparse import native
from keras_sparse.saved_model.saved_table import HasSavedTable
from keras_sparse.tables.keyed_arrays import as_keys
from keras_sparse.tables.keyed_arrays import as_records
from keras_sparse.tables.keyed_arrays import check_range
from keras_sparse.tables.native_table import NativeTable
from keras_sparse.tables.table import FindResult
from keras_sparse.tables.table import Table
from keras_sparse.tables.table import TableDescription
from keras_sparse.tables.table_part import TablePart
from keras_sparse.utils import checks
from keras_sparse.utils.byte_sizes import CHUNK_BYTES

# A first tier that is full makes room for as many rows as have come at once.
_PROMOTED_PIECES = 64
_LEAST_PROMOTED = 256


class LocalTable(HasSavedTable, NativeTable, Table):
    """The table of one process, or this rank's part of a sharded table.

    Methods of a part take and return keys of the whole table.
    """

    @property
    def local(self):
        return self

    def describe(self):
        fields = dataclasses.fields(TableDescription)
        return TableDescription(**{each.name: getattr(self, each.name) for each in fields})

    # Rows by their keys.

    def contains(self, keys):
        keys, held = self._keys_here(keys, "contains")
        exist = np.zeros(len(held), bool)
        with tf.init_scope():
            exist[held] = native.have_rows([self], [tf.constant(keys)])[0].numpy()
        return exist

    def find(self, keys):
        exist, records = self.find_records(keys)
        return FindResult(exist, *self.layout.split(records))

    def find_records(self, keys):
        """Returns `(exist, records)` of `find`: a record is the row, then its slots."""
        keys, held = self._keys_here(keys, "find", self.out_of_range == "zero")
        exist = np.zeros(len(held), bool)
        with tf.init_scope():
            of_keys, records = native.read_rows([self], [tf.constant(keys)])
        exist[held] = of_keys[0].numpy()
        if held.all():
            return exist, records[0].numpy()
        all_records = np.zeros((len(held), records[0].shape[1]), np.float32)
        all_records[held] = records[0].numpy()
        return exist, all_records

    def assign(self, keys, rows, slots=None):
        keys, held = self._keys_here(keys, "assign")
        records = as_records(len(held), rows, slots, self.layout)
        self.dtypes.check_range(records[:, : self.output_dim], "rows", self.path)
        self.import_local(TablePart.of_whole(self).local_ids(keys), records[held])

    def erase(self, keys):
        if self.is_dynamic:
            keys, _ = self._keys_here(keys, "erase")
            with tf.init_scope():
                native.erase_rows([self], [tf.constant(keys)])
            self.forget_accumulated(tf.constant(keys))
            return
        raise NotImplementedError(
            "Rows must be erased from a dynamic table, because every id of a static one has its "
            "row. Overwrite rows with `assign(ids, rows, slots)` instead. Received: variable "
            f"'{self.path}' with input_dim={self.input_dim}"
        )

    def compact(self):
        self._check_eager("compact")
        with tf.init_scope():
            native.compact_tables([self])
        self.saved_files.forbid_links()

    def promote(self, keys):
        """Promotes rows from lower tiers into the first tier.

        The next gradient of a row promotes it as well, but a lookup does not. So a process that
        only predicts calls this method to move its hot rows into the first tier.

        Args:
            keys: List, array or tensor of integers: keys, or ids of the whole table, the hottest
                last. If not all rows fit, the last ones stay in the first tier. Keys without a row
                are skipped.

        Returns:
            Integer. Number of promoted rows.
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
            # The rows are still as they were loaded.
            if self.loaded_state is not None and self.loaded_state.version == before:
                self.loaded_state = dataclasses.replace(self.loaded_state, version=after)
        return num_promoted

    def checked_keys(self, method, keys):
        return as_keys(keys)

    def _keys_here(self, keys, method, takes_any=False):
        """Returns the keys that this part owns, and a boolean array: whether it owns each."""
        self._check_eager(method)
        keys = as_keys(keys)
        part: Any = TablePart.of_whole(self)
        held = part.holds(keys)
        if method == "contains" and part.input_dim is not None:
            held &= (keys >= 0) & (keys < part.input_dim)
        elif not takes_any:
            check_range(keys, part.input_dim, self.path)
        return keys[held], held

    def _check_eager(self, method):
        if not tf.executing_eagerly():
            raise RuntimeError(
                f"`{method}` must be called outside of a `tf.function`, between two steps. "
                f"Received: variable '{self.path}'"
            )

    def _check_ids(self, ids):
        """Raises unless ids are in the whole static table.

        An id past a part may belong to another rank.
        """
        if self.part.input_dim is not None:
            tf.debugging.Assert(
                tf.reduce_all((ids >= 0) & (ids < self.part.input_dim)),
                [
                    f"id must be in [0, {self.part.input_dim}) for table '{self.path}'. Received:",
                    ids,
                ],
            )

    def stats(self, frequencies=False):
        """Returns statistics of the table and its tiers.

        Args:
            frequencies: Boolean. Whether to read all rows, as `export` does, and add `frequencies`:
                a dict from 0, 1, 2, 4, 8, ... to the number of rows with a gradient in 0, 1, 2 to
                3, 4 to 7, 8 to 15, ... steps, or `None` if the table does not count frequencies.
                Defaults to `False`.

        Returns:
            Dict of integers, unless another type is named:

            - `rows`: rows in the table; `bytes`: bytes of everything that holds them;
            - `lookups`: ids looked up; `hits`: looked-up ids with a row;
            - `created_rows`: rows created by a gradient; `evicted_rows`: rows evicted by the
              policy;
            - `out_of_range_ids`: ids read as zeros;
            - `filtered_ids`: gradients dropped by the admission filter; `waiting_keys`: keys that
              the filter counts; `filter_bytes`: bytes of the filter, not part of `bytes`;
            - `waited_seconds`: float, seconds that lookups and updates waited for lower tiers;
            - `peak_first_tier_bytes`: most bytes that the first tier has held, including updates
              that temporarily exceeded its size;
            - `tiers`: dict from the names of the tiers, from the first one down, to dicts of:
                - `rows` in the tier, `bytes` of everything there, and `memory_bytes`, the memory
                  used by a tier on disk or persistent memory;
                - `hits` and `misses`: for the first tier, looked-up ids that it had and had not;
                  for a lower tier, requested keys that it had and had not, each counted once per
                  op;
                - `promotions`: rows promoted into the first tier, or out of a lower tier;
                - `demotions`: rows demoted out of the first tier, or into a lower tier;
                - `read_bytes` and `write_bytes` of records, and `compacted_bytes` moved by
                  compaction;
                - `busy_seconds`: float, seconds spent reading, writing and erasing rows of a lower
                  tier, background work included;
            - `prefetch`: dict about the lookups staged by `keras_sparse.data.prefetch_lookups`,
              counted for the first table of each lookup:
                - `staged`, `used` and `dropped` lookups, and `missed` lookups that a step did
                  itself after the first one was staged;
                - `waited_seconds`: float, seconds that steps waited for staged lookups;
                  `hidden_seconds`: float, staging time of used lookups beyond that;
                - `staleness_max` and `staleness_mean` (float): updates that used rows had missed.

            Counts of lower tiers start when the table receives its optimizer.
        """
        return table_statistics(self, frequencies)

    def evict(self, with_rows=False):
        """Evicts the rows that the table's eviction policy selects, from all tiers.

        Args:
            with_rows: Boolean. Whether to return the evicted rows instead of their number. Defaults
                to `False`.

        Returns:
            Integer, the number of evicted rows. With `with_rows=True`, `(keys, records)`: an int64
            array of shape `(n,)`, and a float32 array of shape `(n, record_floats)` with each row
            and its slots, as `export` yields them.

        Raises:
            ValueError: The table has no eviction policy.
            RuntimeError: The call is inside a `tf.function`.
        """
        if self.eviction is None:
            raise ValueError(
                "`evict` must be called on a table with an eviction policy. Create it with a "
                "policy: Embedding(None, ..., eviction=keras_sparse.GlobalStepEvict(100_000)). "
                f"Received: variable '{self.path}' without one"
            )
        if not tf.executing_eagerly():
            raise RuntimeError(
                "`evict` must be called outside of a `tf.function`. Call it between two steps, or "
                f"use `keras_sparse.ops.evict_rows`. Received: variable '{self.path}'"
            )
        if not with_rows:
            return int(native.evict_rows([self], self.eviction)[0])
        _, keys, records = native.evict_rows([self], self.eviction, with_rows=True)
        return keys[0].numpy(), records[0].numpy()

    # All rows.

    def export_pieces(self, chunk_rows):
        part = TablePart.of_whole(self)
        for piece in self.export_local(chunk_rows):
            yield piece._replace(keys=part.global_ids(piece.keys))

    def import_(self, keys, records, ages=None, frequencies=None):
        """Writes rows with their slots and creates missing rows.

        For a table sharded by rows, each rank keeps the rows that it owns and drops the others:
        pass all rows on all ranks, or on each rank any subset. For a table sharded by columns, pass
        the columns of the rank's part.

        Args:
            keys: int64 array of shape `(n,)`. Keys, or ids of the whole table.
            records: float32 array. Rows of shape `(n, output_dim)`, or records of shape
                `(n, record_floats)` as `export` yields them. Rows alone leave the slots of existing
                rows unchanged.
            ages: uint32 array of shape `(n,)`, as `export` of a table with ages in the same unit
                yields it. A table without ages drops them. Defaults to `None`: age 0.
            frequencies: uint32 array of shape `(n,)`, as `export` yields it. A table without
                frequencies drops them. Defaults to `None`: existing rows keep their frequencies,
                and new rows have 0.

        Raises:
            TypeError: Keys are not integers.
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

    def numpy(self):
        """Returns the rows of a static table as an array.

        Returns:
            float32 array of shape `(input_dim, output_dim)`.

        Raises:
            NotImplementedError: The table is dynamic.
        """
        self._refuse_dynamic("read as one array")
        rows = np.empty((self.input_dim, self.output_dim), np.float32)
        for piece in self.export_local(max(1, CHUNK_BYTES // (4 * self.record_floats))):
            rows[piece.keys] = piece.records[:, : self.output_dim]
        return rows

    def assign_all(self, rows):
        """Writes all rows of a static table and keeps the slots, as in Keras.

        Args:
            rows: Array or tensor of shape `(input_dim, output_dim)`.
        """
        self._refuse_dynamic("assigned")
        if tuple(rows.shape) != (self.input_dim, self.output_dim):
            raise ValueError(
                f"`value` must have the variable's shape {(self.input_dim, self.output_dim)}. "
                f"Received: value.shape={tuple(rows.shape)} for '{self.path}'"
            )
        self.dtypes.check_range(rows, "value", self.path)
        chunk_rows = max(1, CHUNK_BYTES // (4 * self.output_dim))
        for first in range(0, self.input_dim, chunk_rows):
            end = min(first + chunk_rows, self.input_dim)
            self.import_local(np.arange(first, end), tf.cast(rows[first:end], tf.float32))

    def refuse_part(self, action):
        """Raises `ValueError` for a part of a table, which Keras would take for the whole.

        Args:
            action: String: what is done to the table, for the error.
        """
        if self.part is not None and not self.part.is_whole:
            raise ValueError(
                f"A part of a table must not be {action}, because each rank has other rows. Use "
                "the methods of its layer, like `get_weights`; save the model as `.keras`, as "
                f"`.weights.h5` or as a checkpoint. Received: variable '{self.path}' with "
                f"{self.part}"
            )

    def _refuse_dynamic(self, action):
        if self.is_dynamic:
            raise NotImplementedError(
                f"A dynamic table cannot be {action}, because its keys are not a range. To keep "
                "the best weights of a run, use `keras.callbacks.ModelCheckpoint(path, "
                "save_best_only=True)`, then `model.load_weights(path)`. For single rows, use "
                "`export` and `import_`. Save it in your own layer with "
                f"`keras_sparse.saving.save_table`. Received: variable '{self.path}'"
            )


def _as_int64(keys):
    keys = tf.convert_to_tensor(keys)
    if not keys.dtype.is_integer:
        raise TypeError(f"`keys` must be integers. Received: keys of dtype {keys.dtype.name}")
    return tf.cast(keys, tf.int64)


_CHUNK_ROWS = 65536


def table_statistics(table, frequencies):
    """Returns the dict that `LocalTable.stats` describes."""
    with tf.init_scope():
        counts = native.table_stats([table])[0].numpy()
        tiers, tier_counts = (tensor.numpy() for tensor in native.tier_stats(table))
        staging = native.staging_stats([table])[0].numpy()
    stats = _named(native.STATISTICS, counts, "waited")
    stats["tiers"] = {
        tier.decode().upper(): _named(native.TIER_STATISTICS, numbers, "busy")
        for tier, numbers in zip(tiers, tier_counts, strict=True)
    }
    prefetch = _named(native.STAGING_STATISTICS, staging, "waited", "hidden")
    prefetch["staleness_mean"] = prefetch.pop("staleness_sum") / max(1, prefetch["used"])
    stats["prefetch"] = prefetch
    if frequencies:
        stats["frequencies"] = _rows_by_frequency(table)
    return stats


def _rows_by_frequency(table):
    """Counts rows by the highest bit of their frequencies, where the table keeps them."""
    if not table.metadata.frequencies:
        return None
    of_lengths = np.zeros(33, np.int64)
    for piece in table.export_pieces(_CHUNK_ROWS):
        lengths = np.frexp(piece.frequencies.astype(np.float64))[1]
        of_lengths += np.bincount(lengths, minlength=len(of_lengths))
    used = np.flatnonzero(of_lengths)
    num_lengths = int(used[-1]) + 1 if len(used) else 0
    return {2**length // 2: int(of_lengths[length]) for length in range(num_lengths)}


def _named(names, numbers, *durations):
    """Returns numbers by their names, and durations in seconds."""
    stats = dict(zip(names, numbers.tolist(), strict=True))
    for name in durations:
        stats[f"{name}_seconds"] = stats.pop(f"{name}_ns") / 1e9
    return stats
