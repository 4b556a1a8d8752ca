import dataclasses
from typing import Any

import numpy as np

from keras_sparse.distribute.collectives import gather_objects
from keras_sparse.distribute.gather_arrays import gather_arrays
from keras_sparse.distribute.runtime import rank
from keras_sparse.distribute.together import together
from keras_sparse.merge_filters import merge_filters
from keras_sparse.record_layout import JoinedRecords
from keras_sparse.record_layout import RecordLayout
from keras_sparse.table_part import TablePart


@dataclasses.dataclass(frozen=True)
class SpreadTable:
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


class GatheredTable:
    """A table that ranks have parts of, as rank 0 sees it: whole.

    It is to saving what an `EmbeddingVariable` is. All ranks must make it and ask it the same.

    Args:
        table: `SpreadTable`.
        all_ranks: Boolean. Whether all ranks get what rank 0 gets. Defaults to `False`.
    """

    def __init__(self, table, all_ranks=False):
        self._table = table
        self._all_ranks = all_ranks
        variable = table.variable
        told = None
        if variable is not None:
            told = {
                "path": variable.path,
                "num_rows": variable.num_rows,
                "rule": variable.rule,
                "slot_names": variable.slot_names,
                "initial_rows": variable.initial_rows,
                "admission": variable.admission,
                "keeps_ages": variable.keeps_ages,
            }
        of_ranks = gather_objects(told, "gathered_table.about")
        self.__dict__.update(next(told for told in of_ranks if told is not None))
        whole = table.any_part
        self.input_dim, self.output_dim = whole.input_dim, whole.output_dim
        self._layout = RecordLayout(self.output_dim, self.slot_names)
        self.record_floats = self._layout.floats
        self.num_rows = self.input_dim
        if whole.is_dynamic:
            self.num_rows = sum(told["num_rows"] for told in of_ranks if told is not None)

    path: str
    rule: str | None
    slot_names: tuple[str, ...]
    initial_rows: Any
    admission: Any
    keeps_ages: bool

    def export(self, chunk_rows=65536, with_ages=False):
        """Yields all rows, as `EmbeddingVariable.export` does; on other ranks than 0 nothing.

        Those of a static table come in the order of ids.
        """
        if self._table.any_part.is_dynamic:
            own = _of(self._table, "export", chunk_rows, True)
            for of_ranks in self._gather_rounds(own, "export"):
                arrays = zip(*(each for each in of_ranks if each), strict=True)
                keys, records, *ages = (np.concatenate(each) for each in arrays)
                yield (keys, records, ages[0] if ages else None) if with_ages else (keys, records)
            return
        for keys, records in self._gather_ids(chunk_rows, self._layout, self.record_floats):
            yield (keys, records, None) if with_ages else (keys, records)

    def export_rows(self, chunk_rows):
        """Yields `(ids, rows)` of a static table in the order of ids, without slots."""
        layout = RecordLayout(self.output_dim, ())
        yield from self._gather_ids(chunk_rows, layout, self.output_dim)

    def export_filter(self, max_entries):
        """Yields `(keys, counts)` of what the admission filters of all ranks remember."""
        if self.admission is None:
            return
        pieces = self._gather_rounds(_of(self._table, "export_filter", max_entries), "filter")
        entries = ((i, *each) for of_ranks in pieces for i, each in enumerate(of_ranks) if each)
        yield from merge_filters(self.admission.layout(), entries, max_entries)

    def _gather_rounds(self, pieces, name):
        """Yields lists of the next arrays of each rank, until no rank has more."""
        while True:
            with together(f"gathered_table.{name}"):
                piece = next(pieces, None)
            if all(gather_objects(piece is None, f"gathered_table.{name}.last")):
                return
            arrays = [] if piece is None else [each for each in piece if each is not None]
            of_ranks = gather_arrays(arrays, f"gathered_table.{name}", self._all_ranks)
            if of_ranks is not None:
                yield of_ranks

    def _gather_ids(self, chunk_rows, layout, num_floats):
        table = self._table
        chunk_rows = min(chunk_rows, max(1, self.input_dim))
        records = _Records(table.variable, chunk_rows)
        for first in range(0, self.input_dim, chunk_rows):
            end = min(first + chunk_rows, self.input_dim)
            own = []
            if table.variable is not None:
                here = RecordLayout(table.variable.output_dim, table.variable.slot_names)
                num_floats = here.floats if layout is self._layout else here.width
                own = [records.next(len(_ids(table.parts[rank()], first, end)))[:, :num_floats]]
            of_ranks = gather_arrays(own, "gathered_table.records", self._all_ranks)
            if of_ranks is not None:
                yield np.arange(first, end), self._join(first, end, layout, of_ranks)

    def _join(self, first, end, layout, of_ranks):
        joined = JoinedRecords(layout, end - first)
        slot_names = self.slot_names if layout is self._layout else ()
        for part, arrays in zip(self._table.parts, of_ranks, strict=True):
            if part is not None:
                rows = _ids(part, first, end) - first
                theirs = RecordLayout(part.num_columns, slot_names)
                joined.put(rows, part.first_column, theirs, arrays[0])
        return joined.result()


def _of(table, method, *arguments):
    """What a method of this rank's variable yields; nothing on a rank without one."""
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
