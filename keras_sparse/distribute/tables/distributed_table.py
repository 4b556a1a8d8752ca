import contextlib
import dataclasses
import zlib

import numpy as np

from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.distribute.ranks.gather_arrays import gather_arrays
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.distribute.ranks.shared_errors import check_agreement
from keras_sparse.distribute.ranks.shared_errors import errors_on_all_ranks
from keras_sparse.tables.filter_entries import merge_filters
from keras_sparse.tables.keyed_arrays import as_keys
from keras_sparse.tables.keyed_arrays import as_records
from keras_sparse.tables.local_table import LocalTable
from keras_sparse.tables.record_layout import JoinedRecords
from keras_sparse.tables.record_layout import RecordLayout
from keras_sparse.tables.table import FindResult
from keras_sparse.tables.table import RowPiece
from keras_sparse.tables.table import Table
from keras_sparse.tables.table_part import TablePart
from keras_sparse.utils.byte_sizes import CHUNK_BYTES


# Arguments that all ranks must give alike.
def agreed_keys(method, keys):
    """Returns the keys of a method as an int64 array, once all ranks have given the same."""
    with errors_on_all_ranks(f"agreed_keys.{method}"):
        keys = as_keys(keys)
    agree(method, "keys", keys)
    return keys


def agree(method, name, array):
    """Raises RuntimeError on all ranks unless they have given a method the same array."""
    if size() == 1:
        return
    described = f"{len(array)} with checksum {zlib.crc32(array.tobytes()):08x}"
    rule = f"`{method}` must be called on all ranks with the same `{name}`"
    check_agreement([(described, "")], rule, name)


class DistributedTable(Table):
    """A table that ranks have parts of.

    All ranks must call its methods together, with the same arguments, and go through what it yields
    to the end, also where what they make of it fails. What is yielded comes to rank 0 alone, but
    by `export`: to all.

    Args:
        parts: Tuple with the `TablePart` of each rank, or `None` for a rank that has nothing of it.
        local: `LocalTable` with this rank's part, or `None`.
    """

    def __init__(self, parts, local):
        self._parts: tuple[TablePart | None, ...] = parts
        self._local: LocalTable | None = local
        # Of some rank, the same one on all.
        self.any_part = next(part for part in parts if part is not None)
        self.input_dim = self.any_part.input_dim
        self.output_dim = self.any_part.output_dim

    @property
    def local(self):
        return self._local

    def describe(self):
        with errors_on_all_ranks("distributed_table.about"):
            own = None if self._local is None else self._local.describe()
        of_ranks = [each for each in gather_objects(own, "distributed_table.about") if each]
        num_rows = self.input_dim
        if num_rows is None:
            num_rows = sum(each.num_rows for each in of_ranks)
        return dataclasses.replace(
            of_ranks[0], input_dim=self.input_dim, output_dim=self.output_dim, num_rows=num_rows
        )

    # Rows by their keys.

    def contains(self, keys):
        keys = agreed_keys("contains", keys)
        exist = np.zeros(len(keys), bool)
        for places in _pieces(len(keys), 1):
            for _, (theirs,) in self._of_ranks("contains", keys[places]):
                exist[places] |= theirs
        return exist

    def find(self, keys):
        keys = agreed_keys("find", keys)
        layout = self.describe().layout
        exist = np.zeros(len(keys), bool)
        joined = JoinedRecords(layout, len(keys))
        for places in _pieces(len(keys), 4 * layout.floats):
            for part, (theirs, records) in self._of_ranks("find_records", keys[places]):
                exist[places] |= theirs
                own = np.flatnonzero(part.holds(keys[places]))
                here = layout.of_columns(part.num_columns)
                joined.put(places.start + own, part.first_column, here, records[own])
        return FindResult(exist, *layout.split(joined.result()))

    def assign(self, keys, rows, slots=None):
        keys = agreed_keys("assign", keys)
        layout = self.describe().layout
        with errors_on_all_ranks("distributed_table.records"):
            records = as_records(len(keys), rows, slots, layout)
        agree("assign", "rows", records)
        if slots is None:
            layout = RecordLayout(layout.width, ())
        with errors_on_all_ranks("distributed_table.assign"):
            if self._local is not None:
                part = self._local.part
                records = layout.cut(records, part.first_column, part.num_columns)
                rows, own_slots = layout.of_columns(part.num_columns).split(records)
                self._local.assign(keys, rows, slots and own_slots)

    def erase(self, keys):
        keys = agreed_keys("erase", keys)
        with errors_on_all_ranks("distributed_table.erase"):
            if self._local is not None:
                self._local.erase(keys)

    def compact(self):
        with errors_on_all_ranks("distributed_table.compact"):
            if self._local is not None:
                self._local.compact()

    def checked_keys(self, method, keys):
        return agreed_keys(method, keys)

    def _of_ranks(self, method, keys):
        """Yields `(part, arrays)` of each rank with a part: what a method of its table gives."""
        own = []
        with errors_on_all_ranks(f"distributed_table.{method}"):
            if self._local is not None:
                answer = getattr(self._local, method)(keys)
                own = list(answer) if isinstance(answer, tuple) else [answer]
        of_ranks = gather_arrays(own, f"distributed_table.{method}", all_ranks=True)
        for part, arrays in zip(self._parts, of_ranks, strict=True):
            if arrays:
                yield part, arrays

    # All rows. Those of a static table come in the order of ids.

    def export(self, chunk_rows=65536, with_ages=False, with_frequencies=False):
        for piece in self.export_pieces(chunk_rows, all_ranks=True):
            yield piece.selected(with_ages, with_frequencies)

    def export_pieces(self, chunk_rows, all_ranks=False):
        table = self.describe()
        if table.input_dim is not None:
            for keys, records in self._gather_ids(chunk_rows, table.layout, all_ranks):
                yield RowPiece(keys, records)
            return
        names = ["keys", "records", *table.metadata.names]
        own = iter(() if self._local is None else self._local.export_pieces(chunk_rows))
        with _to_the_end(_gather_rounds(own, "export", all_ranks)) as rounds:
            for of_ranks in rounds:
                arrays = zip(*(each for each in of_ranks if each), strict=True)
                joined = [np.concatenate(each) for each in arrays]
                yield RowPiece(**dict(zip(names, joined, strict=True)))

    def export_rows(self, chunk_rows, all_ranks=False):
        """Yields `(ids, rows)` of a static table in the order of ids, without slots."""
        yield from self._gather_ids(chunk_rows, RecordLayout(self.output_dim, ()), all_ranks)

    def export_filter(self, max_entries):
        admission = self.describe().admission
        if admission is None:
            return
        own = iter(() if self._local is None else self._local.export_filter(max_entries))
        with _to_the_end(_gather_rounds(own, "filter", False)) as rounds:
            entries = ((i, *each) for of_ranks in rounds for i, each in enumerate(of_ranks) if each)
            yield from merge_filters(admission.layout(), entries, max_entries)

    def _gather_ids(self, chunk_rows, layout, all_ranks):
        """Yields `(ids, records)` of a static table, of which the layout has some floats."""
        chunk_rows = min(chunk_rows, max(1, self.input_dim))
        with _to_the_end(self._gather_ranges(chunk_rows, layout, all_ranks)) as ranges:
            for first, end, of_ranks in ranges:
                yield np.arange(first, end), self._join(first, end, layout, of_ranks)

    def _gather_ranges(self, chunk_rows, layout, all_ranks):
        """Yields `(first, end, arrays)`: what each rank has of the ids from `first` to `end`."""
        records = _Records(self._local, chunk_rows)
        for first in range(0, self.input_dim, chunk_rows):
            end = min(first + chunk_rows, self.input_dim)
            own = []
            with errors_on_all_ranks("distributed_table.records"):
                if self._local is not None:
                    num_floats = layout.of_columns(self._local.output_dim).floats
                    num_rows = len(_ids(self._parts[rank()], first, end))
                    own = [records.next(num_rows)[:, :num_floats]]
            of_ranks = gather_arrays(own, "distributed_table.records", all_ranks)
            if of_ranks is not None:
                yield first, end, of_ranks

    def _join(self, first, end, layout, of_ranks):
        joined = JoinedRecords(layout, end - first)
        for part, arrays in zip(self._parts, of_ranks, strict=True):
            if part is not None:
                rows = _ids(part, first, end) - first
                theirs = layout.of_columns(part.num_columns)
                joined.put(rows, part.first_column, theirs, arrays[0])
        return joined.result()


def _gather_rounds(pieces, name, all_ranks):
    """Yields lists of the next arrays of each rank, until no rank has more."""
    while True:
        with errors_on_all_ranks(f"distributed_table.{name}"):
            piece = next(pieces, None)
        if all(gather_objects(piece is None, f"distributed_table.{name}.last")):
            return
        arrays = [] if piece is None else [each for each in piece if each is not None]
        of_ranks = gather_arrays(arrays, f"distributed_table.{name}", all_ranks)
        if of_ranks is not None:
            yield of_ranks


def _pieces(num_keys, bytes_per_key):
    """Yields slices of the keys, in pieces of bounded memory."""
    length = max(1, CHUNK_BYTES // bytes_per_key)
    for first in range(0, num_keys, length):
        yield slice(first, min(first + length, num_keys))


@contextlib.contextmanager
def _to_the_end(rounds):
    """Lets a rank take part in all rounds, as others wait for it, also where it fails itself."""
    try:
        yield rounds
    except Exception:
        for _ in rounds:
            pass
        raise


def _ids(part, first, end):
    """The ids from `first` up to `end` that a static part has."""
    return np.arange(first + (part.shard - first) % part.num_shards, end, part.num_shards)


class _Records:
    """The records of a static `LocalTable` in the order of ids, as many at a time as asked for."""

    def __init__(self, table, chunk_rows):
        self._pieces = iter(()) if table is None else table.export(chunk_rows)
        self._left = np.zeros((0, 0 if table is None else table.record_floats), np.float32)

    def next(self, number):
        arrays = [self._left]
        while sum(map(len, arrays)) < number:
            arrays.append(next(self._pieces)[1])
        records = np.concatenate(arrays) if len(arrays) > 1 else arrays[0]
        self._left = records[number:]
        return records[:number]


class ReplicatedTable(Table):
    """A table that each rank has all of, or one process alone.

    All ranks must call its methods together, with the same arguments, so that copies stay alike.

    Args:
        local: `LocalTable`.
    """

    def __init__(self, local):
        self._local = local
        self.input_dim = local.input_dim
        self.output_dim = local.output_dim

    @property
    def local(self):
        return self._local

    def describe(self):
        return self._local.describe()

    def contains(self, keys):
        return self._local.contains(agreed_keys("contains", keys))

    def find(self, keys):
        return self._local.find(agreed_keys("find", keys))

    def assign(self, keys, rows, slots=None):
        keys = agreed_keys("assign", keys)
        with errors_on_all_ranks("replicated_table.assign"):
            self._local.assign(keys, rows, slots)

    def erase(self, keys):
        keys = agreed_keys("erase", keys)
        with errors_on_all_ranks("replicated_table.erase"):
            self._local.erase(keys)

    def compact(self):
        with errors_on_all_ranks("replicated_table.compact"):
            self._local.compact()

    def checked_keys(self, method, keys):
        return agreed_keys(method, keys)

    def export_pieces(self, chunk_rows):
        return self._local.export_pieces(chunk_rows)

    def export_filter(self, max_entries):
        return self._local.export_filter(max_entries)
