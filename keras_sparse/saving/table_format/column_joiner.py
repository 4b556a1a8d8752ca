import numpy as np

from keras_sparse.tables.record_layout import JoinedRecords
from keras_sparse.tables.record_layout import RecordLayout
from keras_sparse.utils.byte_sizes import CHUNK_BYTES


class ColumnJoiner:
    """Puts a part of a saved static table together from columns that several ranks have saved.

    Ids come in windows, for each of which what has them is read: so there is no second copy of the
    part, and each chunk is read about once.

    Args:
        part: `TablePart` that takes.
        saved: List of `SavedPart`.
        slot_names: Tuple of strings: the slots to take.
    """

    def __init__(self, part, saved, slot_names):
        self._part = part
        self._saved = saved
        self._slot_names = slot_names
        self._layout = RecordLayout(part.num_columns, slot_names)
        self._spans = {each: list(_spans(each)) for each in saved}

    def read(self, progress):
        """Yields `(keys, records)` of the part: ids here, and records without words of steps."""
        window = max(1, CHUNK_BYTES // (4 * self._layout.floats))
        input_dim = self._saved[0].part.input_dim  # this table may have more ids
        for first in range(self._part.shard, input_dim, window * self._part.num_shards):
            end = min(first + window * self._part.num_shards, input_dim)
            ids = np.arange(first, end, self._part.num_shards)
            keys = self._part.local_ids(ids)
            joined = JoinedRecords(self._layout, len(keys))
            for saved in self._saved:
                self._put(saved, ids, joined, progress)
            yield keys, joined.result()

    def _put(self, saved, ids, joined, progress):
        part = saved.part
        held = np.flatnonzero(part.holds(ids))
        wanted = ids[held]
        layout = RecordLayout(part.num_columns, self._slot_names)
        records = np.zeros((len(wanted), layout.floats), np.float32)
        if len(wanted) == 0:
            return
        for folder, rows, spans in self._spans[saved]:
            near = [i for i, (low, high) in enumerate(spans) if low <= ids[-1] and high >= ids[0]]
            for piece in saved.read_pieces(folder, rows, None, near):
                theirs = part.global_ids(piece.keys)
                places = np.searchsorted(wanted, theirs)
                is_here = wanted[np.minimum(places, len(wanted) - 1)] == theirs
                made = piece.records[:, : layout.floats]
                records[places[is_here]] = made[is_here]
                progress.add(int(is_here.sum()))
        first = max(part.first_column, self._part.first_column)
        end = min(
            part.first_column + part.num_columns, self._part.first_column + self._part.num_columns
        )
        some = layout.cut(records, first - part.first_column, end - first)
        some_layout = RecordLayout(end - first, self._slot_names)
        joined.put(held, first - self._part.first_column, some_layout, some)


def _spans(saved):
    """Yields `(folder, rows, spans)`: the least and the largest id of each chunk of each part."""
    reader = saved.reader
    for folder, rows in reader.parts(saved.index):
        all_ids = map(saved.part.global_ids, reader.read_keys(folder, rows))
        yield folder, rows, [(int(ids.min()), int(ids.max())) for ids in all_ids]
