import functools

import numpy as np

from keras_sparse import native
from keras_sparse.saving.table_format.saved_ages import ages_now
from keras_sparse.saving.table_format.saved_table import SavedTable
from keras_sparse.tables.packed_records import packed_records
from keras_sparse.tables.table import RowPiece
from keras_sparse.tables.table_part import TablePart


class SavedPart(SavedTable):
    """What a rank has saved of a table in a checkpoint.

    Args:
        reader: `CheckpointReader`.
        index: Integer: its number there.
        rank: Integer: that has saved it.
        num_ranks: Integer: how many have saved the checkpoint, or `None` for one without ranks.
    """

    def __init__(self, reader, index, rank, num_ranks):
        self.reader = reader
        self.index = index
        self.rank = rank
        self._num_ranks = num_ranks
        self.table = table = reader.manifest.tables[index]
        self.part = table.part or TablePart.whole(table.name, table)

    def is_of(self, num_ranks):
        """Returns whether it is of a checkpoint that this number of ranks has saved."""
        return (self._num_ranks or 1) == num_ranks

    @functools.cached_property
    def history(self):
        return self.reader.history(self.index)

    def parts(self):
        return self.reader.parts(self.index)

    def read_erased(self, folder, part):
        return self.reader.read_erased(folder, part)

    def read_raw(self, folder, part):
        """Yields the `RowPiece` of each chunk, whose records are as they lay in the tiers.

        Records in 16 bits come in float32, which holds the same numbers.
        """
        packed = packed_records(self.table)
        for keys, raw in self.reader.read(self.index, folder, part):
            yield RowPiece(keys, raw if packed is None else packed.unpack(raw))

    def read_pieces(self, folder, part, unit, wanted=None):
        for keys, raw in self.reader.read(self.index, folder, part, wanted):
            yield RowPiece(keys, self._catch_up(raw), **self._metadata_of(raw, unit))

    def read_rows(self):
        """Yields the `RowPiece` of each chunk with rows, each row once, as it is after all parts.

        Memory holds the keys of all parts but the first: those of changed rows, and of rows in
        segments of an SSD tier.
        """
        replaced = np.zeros(0, np.int64)  # keys of later parts, sorted
        for folder, part in reversed(self.parts()):
            keys = [replaced, self.read_erased(folder, part)]
            for piece in self.read_pieces(folder, part, self.table.metadata.ages):
                places = np.minimum(np.searchsorted(replaced, piece.keys), len(replaced) - 1)
                if len(replaced) > 0:
                    piece = piece.of_rows(replaced[places] != piece.keys)
                keys.append(piece.keys)
                if len(piece.keys) > 0:
                    yield piece
            replaced = np.unique(np.concatenate(keys))

    def read_filter(self):
        return self.reader.read_filter(self.index)

    def read_accumulated(self):
        return self.reader.read_accumulated(self.index)

    @functools.cached_property
    def _catch_up(self):
        """The function that gives records as they are after the last step."""
        table = self.table
        if table.rule is None:
            packed = packed_records(table)
            return lambda raw: (raw if packed is None else packed.unpack(raw))[
                :, : table.record_floats
            ]
        rule = native.SavedRule(
            table.rule,
            table.rule_constants,
            table.rule_weight_decay,
            table.output_dim,
            self.history,
            table.metadata.ages is not None,
            table.metadata.frequencies,
            table.dtypes,
        )
        return lambda raw: rule.catch_up(raw).numpy()

    def _metadata_of(self, raw, unit):
        """Returns what raw records have behind what the rule keeps, by its name in `RowPiece`."""
        kept, words = {}, raw.view(np.uint32)
        end = raw.shape[1]
        if self.table.metadata.frequencies:
            end -= 1
            kept["frequencies"] = words[:, end]
        if self.table.metadata.ages is not None:
            # The word is the step of the last gradient, or the time.
            clock = self.history.table_step
            ages = np.uint32(clock) - words[:, end - 1]
            in_seconds = self.table.metadata.ages == "seconds"
            kept["ages"] = ages_now(ages, clock if in_seconds else None, unit)
        return kept
