import contextlib
import dataclasses
from typing import Any

import numpy as np

from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.distribute.ranks.gather_arrays import gather_arrays
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.ranks.shared_errors import errors_on_all_ranks
from keras_sparse.tables.filter_entries import merge_filters
from keras_sparse.tables.record_layout import JoinedRecords
from keras_sparse.tables.record_layout import RecordLayout
from keras_sparse.tables.row_metadata import RowMetadata
from keras_sparse.tables.row_piece import RowPiece
from keras_sparse.tables.table_part import TablePart


@dataclasses.dataclass(frozen=True)
class ShardedTable:
    """A table that ranks have parts of.

    Args:
        parts: Tuple with the `TablePart` of each rank, or `None` for a rank that has nothing of it.
        variable: `EmbeddingVariable` with this rank's part, or `None`.
    """

    parts: tuple[TablePart | None, ...]
    variable: Any

    @property
    def any_part(self):
        """The `TablePart` of some rank, the same one on all."""
        return next(part for part in self.parts if part is not None)


@dataclasses.dataclass(frozen=True)
class _About:
    """The answer of a rank about its part of a table."""

    path: str
    rule: str | None
    slot_names: tuple[str, ...]
    initial_rows: Any
    admission: Any
    metadata: RowMetadata
    num_rows: int

    @classmethod
    def of(cls, variable):
        return cls(**{each.name: getattr(variable, each.name) for each in dataclasses.fields(cls)})


class GatheredTable:
    """A table that ranks have parts of, as rank 0 sees it: whole.

    It is to saving what an `EmbeddingVariable` is. All ranks must make it and ask it the same, and
    go through what it yields to the end, also where what they make of it fails.

    Args:
        table: `ShardedTable`.
        all_ranks: Boolean. Whether all ranks get what rank 0 gets. Defaults to `False`.
    """

    def __init__(self, table, all_ranks=False):
        self._table = table
        self._all_ranks = all_ranks
        with errors_on_all_ranks("gathered_table.about"):
            own = None if table.variable is None else _About.of(table.variable)
        of_ranks = [each for each in gather_objects(own, "gathered_table.about") if each]
        about, whole = of_ranks[0], table.any_part
        self.path = about.path
        self.rule = about.rule
        self.slot_names = about.slot_names
        self.initial_rows = about.initial_rows
        self.admission = about.admission
        self.metadata = about.metadata
        self.input_dim = whole.input_dim
        self.output_dim = whole.output_dim
        self.num_rows = self.input_dim
        if whole.is_dynamic:
            self.num_rows = sum(each.num_rows for each in of_ranks)
        self._layout = RecordLayout(self.output_dim, self.slot_names)
        self.record_floats = self._layout.floats

    def export(self, chunk_rows=65536, with_ages=False, with_frequencies=False):
        """Yields all rows, as `EmbeddingVariable.export` does; on other ranks than 0 nothing.

        Those of a static table come in the order of ids.
        """
        for piece in self.export_pieces(chunk_rows):
            yield piece.selected(with_ages, with_frequencies)

    def export_pieces(self, chunk_rows):
        """Yields the same, each time a `RowPiece`."""
        if not self._table.any_part.is_dynamic:
            for keys, records in self._gather_ids(chunk_rows, self._layout):
                yield RowPiece(keys, records)
            return
        names = ["keys", "records", *self.metadata.names]
        own = _of(self._table, "export_pieces", chunk_rows)
        with _to_the_end(self._gather_rounds(own, "export")) as rounds:
            for of_ranks in rounds:
                arrays = zip(*(each for each in of_ranks if each), strict=True)
                joined = [np.concatenate(each) for each in arrays]
                yield RowPiece(**dict(zip(names, joined, strict=True)))

    def export_rows(self, chunk_rows):
        """Yields `(ids, rows)` of a static table in the order of ids, without slots."""
        yield from self._gather_ids(chunk_rows, RecordLayout(self.output_dim, ()))

    def export_filter(self, max_entries):
        """Yields `(keys, counts)` of what the admission filters of all ranks remember."""
        if self.admission is None:
            return
        own = _of(self._table, "export_filter", max_entries)
        with _to_the_end(self._gather_rounds(own, "filter")) as rounds:
            entries = ((i, *each) for of_ranks in rounds for i, each in enumerate(of_ranks) if each)
            yield from merge_filters(self.admission.layout(), entries, max_entries)

    def _gather_rounds(self, pieces, name):
        """Yields lists of the next arrays of each rank, until no rank has more."""
        while True:
            with errors_on_all_ranks(f"gathered_table.{name}"):
                piece = next(pieces, None)
            if all(gather_objects(piece is None, f"gathered_table.{name}.last")):
                return
            arrays = [] if piece is None else [each for each in piece if each is not None]
            of_ranks = gather_arrays(arrays, f"gathered_table.{name}", self._all_ranks)
            if of_ranks is not None:
                yield of_ranks

    def _gather_ids(self, chunk_rows, layout):
        """Yields `(ids, records)` of a static table, of which the layout has some floats."""
        chunk_rows = min(chunk_rows, max(1, self.input_dim))
        with _to_the_end(self._gather_ranges(chunk_rows, layout)) as ranges:
            for first, end, of_ranks in ranges:
                yield np.arange(first, end), self._join(first, end, layout, of_ranks)

    def _gather_ranges(self, chunk_rows, layout):
        """Yields `(first, end, arrays)`: what each rank has of the ids from `first` to `end`."""
        table = self._table
        records = _Records(table.variable, chunk_rows)
        for first in range(0, self.input_dim, chunk_rows):
            end = min(first + chunk_rows, self.input_dim)
            own = []
            with errors_on_all_ranks("gathered_table.records"):
                if table.variable is not None:
                    here = RecordLayout(table.variable.output_dim, table.variable.slot_names)
                    num_floats = here.floats if layout is self._layout else here.width
                    num_rows = len(_ids(table.parts[rank()], first, end))
                    own = [records.next(num_rows)[:, :num_floats]]
            of_ranks = gather_arrays(own, "gathered_table.records", self._all_ranks)
            if of_ranks is not None:
                yield first, end, of_ranks

    def _join(self, first, end, layout, of_ranks):
        joined = JoinedRecords(layout, end - first)
        slot_names = self.slot_names if layout is self._layout else ()
        for part, arrays in zip(self._table.parts, of_ranks, strict=True):
            if part is not None:
                rows = _ids(part, first, end) - first
                theirs = RecordLayout(part.num_columns, slot_names)
                joined.put(rows, part.first_column, theirs, arrays[0])
        return joined.result()


@contextlib.contextmanager
def _to_the_end(rounds):
    """Lets a rank take part in all rounds, as others wait for it, also where it fails itself."""
    try:
        yield rounds
    except Exception:
        for _ in rounds:
            pass
        raise


def _of(table, method, *arguments):
    """Yields what a method of this rank's variable yields; nothing on a rank without one."""
    return iter(()) if table.variable is None else iter(getattr(table.variable, method)(*arguments))


def _ids(part, first, end):
    """The ids from `first` up to `end` that a static part has."""
    return np.arange(first + (part.shard - first) % part.num_shards, end, part.num_shards)


class _Records:
    """The records of a static variable in the order of ids, as many at a time as asked for."""

    def __init__(self, variable, chunk_rows):
        self._pieces = iter(()) if variable is None else variable.export(chunk_rows)
        self._left = np.zeros((0, 0 if variable is None else variable.record_floats), np.float32)

    def next(self, number):
        arrays = [self._left]
        while sum(map(len, arrays)) < number:
            arrays.append(next(self._pieces)[1])
        records = np.concatenate(arrays) if len(arrays) > 1 else arrays[0]
        self._left = records[number:]
        return records[:number]
