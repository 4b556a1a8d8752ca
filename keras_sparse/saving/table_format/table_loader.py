import functools
import math

import numpy as np
import tensorflow as tf

from keras_sparse import native
from keras_sparse.saving.table_format.chunks import MAX_ENTRIES
from keras_sparse.saving.table_format.column_joiner import ColumnJoiner
from keras_sparse.saving.table_format.saved_ages import latest
from keras_sparse.saving.table_format.saved_ages import seconds_now
from keras_sparse.saving.table_format.table_fit import check_fits
from keras_sparse.saving.table_format.table_fit import has_grown
from keras_sparse.saving.table_format.table_fit import has_same_slots
from keras_sparse.saving.table_format.table_fit import may_load_filter
from keras_sparse.saving.table_format.table_fit import warn_of_rounding
from keras_sparse.tables.filter_entries import merge_filters
from keras_sparse.tables.record_layout import RecordLayout
from keras_sparse.tables.table_part import PartSelector
from keras_sparse.tables.table_part import TablePart


class TableLoader:
    """Loads a saved table, or what this rank has of it.

    A table with the rule of the saved one, and its constants, takes over the records as they lay,
    and the rule's history: it goes on bit for bit as if it had never stopped. All others are given
    rows that have caught up, and slots if they are the same; so are tables whose columns come from
    several ranks.

    Args:
        table: `LocalTable`.
        saved: List of `SavedTable`: the whole table.
    """

    def __init__(self, table, saved):
        self._table = table
        self._part = TablePart.of_whole(table)
        check_fits(table, saved[0].part)
        self._saved = [each for each in saved if _overlap(self._part, each.part)]
        self._histories = [each.history for each in self._saved if each.history is not None]
        self.owner = None if table.rule_owner is None else table.rule_owner()
        self._accumulated = None if table.accumulated is None else self._read_accumulated()
        # Clocks of ranks differ; steps do not.
        in_seconds = table.metadata.ages == "seconds"
        steps = {(each.step, None if in_seconds else each.table_step) for each in self._histories}
        self._has_grown = has_grown(table, saved[0].part)
        self._is_as_it_lay = (
            not self._has_grown
            and len(steps) == 1
            and all(_describe(each.table) == _describe(table) for each in self._saved)
        )

    def source(self):
        """Returns the `SavedPart` that has the very records loaded, which need not be saved again.

        Returns:
            `None` if there is none: they were cut, joined or made anew.
        """
        is_same = len(self._saved) == 1 and _place(self._saved[0].part) == _place(self._part)
        are_equal = all(_types(each.table) == _types(self._table) for each in self._saved)
        return self._saved[0] if is_same and are_equal and self._is_as_it_lay else None

    def files(self):
        """Returns what names the parts of rows: a tuple of them, in order, for each `SavedPart`."""
        return tuple(tuple(part.place for _, part in each.parts()) for each in self._saved)

    def parts(self):
        """Returns pairs of a folder and a part there: what is read of all `SavedPart`."""
        return [(folder, part) for _, folder, part in self._parts_after()]

    def goes_on_from(self, files):
        """Returns whether a table with these files lacks later ones alone to be this one."""
        ours = self.files()
        if len(ours) != len(files) or not all(
            mine[: len(old)] == old for mine, old in zip(ours, files, strict=True)
        ):
            return False
        if not all(_has_columns(each.part, self._part) for each in self._saved):
            return False
        # Of rows that move in steps without a gradient a delta has only what a rule makes of it,
        # and changes of records have what a table keeps of a row behind nothing but the row.
        have_moved = any(len(each.run_lengths) > 0 for each in self._histories)
        has_slots = self._table.metadata.names and self._table.rule is not None
        is_still = not have_moved and not has_slots and not self._has_grown
        return self._is_as_it_lay or is_still

    def num_records(self, files=None):
        """Returns how many records are read, all of them or those of parts after `files`."""
        return sum(part.num_rows for _, _, part in self._parts_after(files))

    def _parts_after(self, files=None):
        """Yields `(SavedPart, folder, part)` of what comes after `files`, which `files()` gave."""
        for i, each in enumerate(self._saved):
            first = 0 if files is None else len(files[i])
            for folder, part in each.parts()[first:]:
                yield each, folder, part

    def later_history(self):
        """Returns the `RuleHistory` that `native.apply_changes` takes with `read_changes`."""
        return self._history() if self._is_as_it_lay else self._own_history()

    def read_changes(self, files, history, progress):
        """Yields what comes after `files`, as `native.apply_changes` takes it.

        Args:
            files: The tuple that `files()` has returned.
            history: The history that `later_history()` returns.
            progress: `Progress` that counts records.
        """
        for saved, folder, part in self._parts_after(files):
            erased, pieces = self._read_part(saved, folder, part, progress)
            for piece in pieces:
                records = piece.records
                if not self._is_as_it_lay:
                    records = self._with_kept_words(piece, history.table_step)
                yield erased, piece.keys, records
                erased = erased[:0]
            if len(erased) > 0:
                yield erased, erased[:0], np.zeros((0, self._table.output_dim))

    def _history(self):
        """Returns that which reaches back to the steps of all records."""
        history = min(self._histories, key=lambda each: each.first_step)
        return history._replace(table_step=self._table_step())

    def _table_step(self):
        # No row may lie in the future of the clock.
        return latest([each.table_step for each in self._histories])

    def _own_history(self):
        """Returns that of a table that takes rows alone, at the clock that tells their ages."""
        table = self._table
        with tf.init_scope():
            (history,) = native.export_history([table])
        if table.metadata.ages == "seconds":
            return history._replace(table_step=np.uint32(seconds_now()))
        if self._saved[0].table.metadata.ages != "steps":
            return history
        return history._replace(table_step=self._table_step())

    def _with_kept_words(self, piece, clock):
        """Returns records with what a table without a rule keeps of rows behind them."""
        table, words = self._table, []
        none = np.zeros(len(piece.keys), np.uint32)
        if table.metadata.ages is not None:
            words.append(np.uint32(clock) - (none if piece.ages is None else piece.ages))
        if table.metadata.frequencies:
            words.append(none if piece.frequencies is None else piece.frequencies)
        columns = [each[:, np.newaxis].view(np.float32) for each in words]
        return np.concatenate([piece.records, *columns], axis=1)

    def _read_accumulated(self):
        """Returns `(ids, values)` of the accumulated gradients of rows that are this part's."""
        ours, pieces = self._part, []
        for saved in self._saved:
            ids, values = saved.read_accumulated()
            ids, held = PartSelector(ours, saved.part).keys(ids)
            first = saved.part.first_column - ours.first_column
            pieces.append((ids, values[held, max(0, -first) : ours.num_columns - first], first))
        if len(pieces) == 1:
            return pieces[0][:2]
        # Ids of a filter's occurrences repeat, but no dynamic table is cut by columns.
        if not any(first for _, _, first in pieces):
            return tuple(np.concatenate(arrays) for arrays in list(zip(*pieces, strict=True))[:2])
        all_ids = np.unique(np.concatenate([ids for ids, _, _ in pieces]))
        joined = np.zeros((len(all_ids), ours.num_columns), np.float32)
        for ids, values, first in pieces:
            begin = max(0, first)
            columns = slice(begin, begin + values.shape[1])
            joined[np.searchsorted(all_ids, ids), columns] = values
        return all_ids, joined

    def drop_accumulated(self):
        """Drops what the table has accumulated, and returns whether there is any."""
        ids, _ = self._accumulated or ((), ())
        self._accumulated = None
        return len(ids) > 0

    def load_accumulated(self):
        """Gives the optimizer what the table has accumulated."""
        self._table.forget_accumulated()
        if self._accumulated is not None:
            self._table.accumulated.assign(*self._accumulated)

    def load(self, progress):
        """Loads rows, and what the admission filter remembers.

        Args:
            progress: `Progress` that counts records.
        """
        table = self._table
        self.warn_of_losses()
        if not self._has_grown:
            table.set_initial_rows(self._saved[0].table.initial_rows)
        if self._is_as_it_lay:
            native.restore(table, self._history())
        elif self._has_grown:
            table.clear()
        else:
            if table.is_dynamic or not self._same_slots:  # else all rows come with all slots
                native.clear_tables([table])
            if self._histories and table.metadata.ages is not None and table.rule is None:
                # So that a later state's clock says how much older its rows are: see read_changes.
                native.restore(table, self._own_history())
            self._go_on_counting()
        if not all(_has_columns(each.part, self._part) for each in self._saved):
            slot_names = self._saved[0].table.slot_names if self._same_slots else ()
            for keys, records in ColumnJoiner(self._part, self._saved, slot_names).read(progress):
                table.import_local(keys, records)
        else:
            for saved, folder, part in self._parts_after():
                erased, pieces = self._read_part(saved, folder, part, progress)
                if len(erased) > 0:
                    native.erase_rows([table], [erased])
                for piece in pieces:
                    table.import_local(*piece)
        self._load_filter()
        self.load_accumulated()

    def _go_on_counting(self):
        """Lets a table that rounds by the rule's step count on from that of a saved table."""
        table = self._table
        steps = [int(each.step) for each in self._histories]
        steps += [each.table.rule_step for each in self._saved if each.history is None]
        step = max((each for each in steps if each is not None), default=None)
        if step is None or table.dtypes.are_float32 or not self._same_slots:
            return
        with tf.init_scope():
            (history,) = native.export_history([table])
        none = np.zeros((0, history.numbers.shape[1]), np.float32)
        native.restore(
            table,
            history._replace(
                step=step, first_step=step, run_lengths=np.zeros(0, np.int64), numbers=none
            ),
        )

    def warn_of_losses(self):
        """Warns of what a load loses: slots of another rule, another filter's entries, bits."""
        _ = self._same_slots, self._takes_filter, self._rounds

    @functools.cached_property
    def _rounds(self):
        return warn_of_rounding(self._table, self._saved[0].table)

    @functools.cached_property
    def _takes_filter(self):
        return bool(self._filters) and may_load_filter(self._table, self._filters[0].table)

    @property
    def _filters(self):
        return [each for each in self._saved if each.table.filter is not None]

    @functools.cached_property
    def _same_slots(self):
        return self._is_as_it_lay or has_same_slots(self._table, self._saved[0].table)

    def _read_part(self, saved, folder, part, progress):
        """Returns what a part changes in the table.

        Returns:
            `(erased, pieces)`: the keys whose rows go, and then an iterator of `RowPiece` of those
            that come, none of them empty.
        """
        cut = PartSelector(self._part, saved.part)
        erased, _ = cut.keys(saved.read_erased(folder, part))
        return erased, self._read_pieces(saved, folder, part, cut, progress)

    def _read_pieces(self, saved, folder, part, cut, progress):
        layout = RecordLayout(saved.table.output_dim, saved.table.slot_names)
        if self._is_as_it_lay:
            pieces = saved.read_raw(folder, part)
        else:
            pieces = saved.read_pieces(folder, part, self._table.metadata.ages)
        for piece in pieces:
            progress.add(len(piece.keys))
            piece = cut.rows(piece, layout)
            if not self._same_slots:
                piece = piece._replace(records=piece.records[:, : self._table.output_dim])
            if len(piece.keys) > 0:
                yield piece

    def _load_filter(self):
        some = self._filters
        if not self._takes_filter:
            return
        layout = some[0].table.filter.layout
        pieces = (
            (number, *PartSelector(self._part, each.part).entries(layout, keys, counts))
            for number, each in enumerate(some)
            for keys, counts in each.read_filter()
        )
        merged = ((k, c) for _, k, c in pieces) if len(some) == 1 else None
        for keys, counts in merged or merge_filters(layout, pieces, MAX_ENTRIES):
            native.import_filter([self._table], [keys], [counts])


def _describe(table):
    """Returns what two tables must have alike for records of one to serve the other as they are.

    Args:
        table: `LocalTable`, or `TableEntry` of a saved one.
    """
    return (
        table.rule,
        table.rule_constants,
        table.rule_weight_decay,
        tuple(table.slot_names),
        table.metadata,
    )


def _types(table):
    return table.dtypes.row, table.dtypes.slots


def _place(part):
    """Returns the columns and shard of a part, without its name."""
    return part.first_column, part.num_columns, part.shard, part.num_shards


def _columns(part):
    return part.first_column, part.first_column + part.num_columns


def _has_columns(part, wanted):
    (first, end), (first_wanted, end_wanted) = _columns(part), _columns(wanted)
    return first <= first_wanted and end_wanted <= end


def _overlap(part, other):
    """Returns whether two parts may have an element of the table in common."""
    (first, end), (other_first, other_end) = _columns(part), _columns(other)
    step = math.gcd(part.num_shards, other.num_shards)
    return first < other_end and other_first < end and (part.shard - other.shard) % step == 0
