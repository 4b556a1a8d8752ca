import zlib

import numpy as np

from keras_sparse.distribute.ranks.check_agreement import check_agreement
from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.distribute.ranks.gather_arrays import gather_arrays
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.distribute.ranks.shared_errors import errors_on_all_ranks
from keras_sparse.distribute.tables.sharded_table import GatheredTable
from keras_sparse.distribute.tables.sharded_table import ShardedTable
from keras_sparse.tables.find_result import FindResult
from keras_sparse.tables.keyed_arrays import as_keys
from keras_sparse.tables.keyed_arrays import as_records
from keras_sparse.tables.padded_keys import PaddedKeys
from keras_sparse.tables.record_layout import JoinedRecords
from keras_sparse.tables.record_layout import RecordLayout
from keras_sparse.utils.byte_sizes import CHUNK_BYTES


class KeysOfRanks:
    """Rows by their keys, of a table that ranks have parts or copies of.

    The methods are those of `EmbeddingVariable`. All ranks must call them together, with the same
    arguments; each does what it owns, and all get the whole answer. An error of one rank is raised
    on all.

    Args:
        table: `ShardedTable`, or `EmbeddingVariable` for a table that each rank has all of.
    """

    def __init__(self, table):
        self._table = table
        self._is_sharded = isinstance(table, ShardedTable)

    @classmethod
    def of_layer(cls, table, layer):
        """Returns the rows by their keys of a table, with the `padding_id` of its `Embedding`."""
        keyed = cls(table)
        if layer.padding_id is None:
            return keyed
        return PaddedKeys(keyed, layer.padding_id, _agreed)

    def contains(self, keys):
        """See `EmbeddingVariable.contains`."""
        keys = _agreed("contains", keys)
        if not self._is_sharded:
            return self._table.contains(keys)
        exist = np.zeros(len(keys), bool)
        for places in _pieces(len(keys), 1):
            for _, (theirs,) in self._of_ranks("contains", keys[places]):
                exist[places] |= theirs
        return exist

    def find(self, keys):
        """See `EmbeddingVariable.find`."""
        keys = _agreed("find", keys)
        if not self._is_sharded:
            return self._table.find(keys)
        slot_names = self._slot_names()
        layout = RecordLayout(self._table.any_part.output_dim, slot_names)
        exist = np.zeros(len(keys), bool)
        joined = JoinedRecords(layout, len(keys))
        for places in _pieces(len(keys), 4 * layout.floats):
            for part, (theirs, records) in self._of_ranks("find_records", keys[places]):
                exist[places] |= theirs
                own = np.flatnonzero(part.holds(keys[places]))
                here = RecordLayout(part.num_columns, slot_names)
                joined.put(places.start + own, part.first_column, here, records[own])
        return FindResult(exist, *layout.split(joined.result()))

    def assign(self, keys, rows, slots=None):
        """See `EmbeddingVariable.assign`."""
        keys = _agreed("assign", keys)
        if not self._is_sharded:
            with errors_on_all_ranks("keys_of_ranks.assign"):
                self._table.assign(keys, rows, slots)
            return
        layout = RecordLayout(self._table.any_part.output_dim, self._slot_names())
        with errors_on_all_ranks("keys_of_ranks.records"):
            records = as_records(len(keys), rows, slots, layout)
        _agree("assign", "rows", records)
        if slots is None:
            layout = RecordLayout(layout.width, ())
        with errors_on_all_ranks("keys_of_ranks.assign"):
            variable = self._table.variable
            if variable is not None:
                part = variable.part
                records = layout.cut(records, part.first_column, part.num_columns)
                here = RecordLayout(part.num_columns, tuple(layout.slot_widths))
                variable.assign(keys, *(here.split(records) if slots is not None else (records,)))

    def erase(self, keys):
        """See `EmbeddingVariable.erase`."""
        keys = _agreed("erase", keys)
        with errors_on_all_ranks("keys_of_ranks.erase"):
            if self._variable is not None:
                self._variable.erase(keys)

    def compact(self):
        """See `EmbeddingVariable.compact`. Each rank does so with its own files."""
        with errors_on_all_ranks("keys_of_ranks.compact"):
            if self._variable is not None:
                self._variable.compact()

    def export(self, chunk_rows=65536, with_ages=False, with_frequencies=False):
        """See `EmbeddingVariable.export`. All ranks must go through it to the end."""
        table = GatheredTable(self._table, all_ranks=True) if self._is_sharded else self._table
        yield from table.export(chunk_rows, with_ages, with_frequencies)

    @property
    def _variable(self):
        """What this rank has of the table, `None` if that is nothing."""
        return self._table.variable if self._is_sharded else self._table

    def _of_ranks(self, method, keys):
        """Yields `(part, arrays)` of each rank with a part: what a method of its variable gives."""
        own = []
        with errors_on_all_ranks(f"keys_of_ranks.{method}"):
            if self._table.variable is not None:
                answer = getattr(self._table.variable, method)(keys)
                own = list(answer) if isinstance(answer, tuple) else [answer]
        of_ranks = gather_arrays(own, f"keys_of_ranks.{method}", all_ranks=True)
        for part, arrays in zip(self._table.parts, of_ranks, strict=True):
            if arrays:
                yield part, arrays

    def _slot_names(self):
        variable = self._table.variable
        own = None if variable is None else variable.slot_names
        of_ranks = gather_objects(own, "keys_of_ranks.slot_names")
        return next(names for names in of_ranks if names is not None)


def _agreed(method, keys):
    """Returns keys as an array, once all ranks have given the same."""
    with errors_on_all_ranks(f"keys_of_ranks.{method}.keys"):
        keys = as_keys(keys)
    _agree(method, "keys", keys)
    return keys


def _agree(method, name, array):
    if size() == 1:
        return
    described = f"{len(array)} with checksum {zlib.crc32(array.tobytes()):08x}"
    rule = f"`{method}` must be called on all ranks with the same `{name}`"
    check_agreement([(described, "")], rule, name)


def _pieces(num_keys, bytes_per_key):
    """Yields slices of the keys, in pieces of bounded memory."""
    length = max(1, CHUNK_BYTES // bytes_per_key)
    for first in range(0, num_keys, length):
        yield slice(first, min(first + length, num_keys))
