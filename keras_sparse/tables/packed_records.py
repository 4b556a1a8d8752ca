import ml_dtypes
import numpy as np

from keras_sparse.tables.record_layout import RecordLayout
from keras_sparse.utils.row_dtypes import RowDtypes

_HALVES_PER_WORD = 2
_WORD_BYTES = 4
_DTYPES = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}


class PackedRecords:
    """Converts records between float32 and the words in which tables and files store them.

    A row or slot in 16 bits ends at a whole word of 4 bytes; see docs/formats/table.md.

    Args:
        layout: `RecordLayout` of the records in float32.
        dtypes: `RowDtypes`.

    Attributes:
        words: Integer. Words of a row and its slots.
    """

    def __init__(self, layout: RecordLayout, dtypes: RowDtypes):
        self._layout = layout
        self._parts = []  # (dtype or None for float32, first float, first word, number of floats)
        begin, word = 0, 0
        for slot, width in ((None, layout.width), *layout.slot_widths.items()):
            # By its name, because a row may be one float wide, too.
            is_per_row = slot in layout.row_slots
            dtype = (
                None if is_per_row else _DTYPES.get(dtypes.row if slot is None else dtypes.slots)
            )
            self._parts.append((dtype, begin, word, width))
            begin += width
            word += self._num_words(dtype, width)
        self.words = word

    def unpack(self, records):
        """Returns records in float32.

        Args:
            records: float32 array of shape `(n, words + m)`, whose bits are those stored, with `m`
                words of other types behind row and slots.

        Returns:
            float32 array of shape `(n, layout.floats + m)`.
        """
        behind = records.shape[1] - self.words
        unpacked = np.empty((len(records), self._layout.floats + behind), np.float32)
        for dtype, begin, word, width in self._parts:
            stored = records[:, word : word + self._num_words(dtype, width)]
            unpacked[:, begin : begin + width] = (
                stored if dtype is None else _halves(stored).view(dtype)[:, :width]
            )
        # Words of other types keep their bits.
        unpacked.view(np.uint32)[:, self._layout.floats :] = records.view(np.uint32)[
            :, self.words :
        ]
        return unpacked

    def pack(self, records):
        """Returns the words of records, rounded to the nearest.

        Args:
            records: float32 array of shape `(n, layout.floats)`.

        Returns:
            float32 array of shape `(n, words)`.
        """
        packed = np.zeros((len(records), self.words), np.float32)
        for dtype, begin, word, width in self._parts:
            floats = records[:, begin : begin + width]
            if dtype is None:
                packed[:, word : word + width] = floats
                continue
            halves = np.zeros(
                (len(records), _HALVES_PER_WORD * self._num_words(dtype, width)), dtype
            )
            with np.errstate(over="ignore"):  # infinity, as in the table
                halves[:, :width] = floats.astype(dtype)
            packed.view(np.uint32)[:, word : word + self._num_words(dtype, width)] = halves.view(
                np.uint32
            )
        return packed

    @staticmethod
    def _num_words(dtype, width):
        return width if dtype is None else -(-width // _HALVES_PER_WORD)


def packed_records(table):
    """Returns the `PackedRecords` of a table, or `None` if its records are float32.

    Args:
        table: `TableDescription`, or the `TableHeader` or `TableEntry` of a saved table.
    """
    if table.dtypes.are_float32:
        return None
    return PackedRecords(RecordLayout(table.output_dim, table.slot_names), table.dtypes)


def record_bytes(table):
    """Returns the bytes of a stored row and its slots.

    Args:
        table: As of `packed_records`.
    """
    layout = RecordLayout(table.output_dim, table.slot_names)
    return _WORD_BYTES * PackedRecords(layout, table.dtypes).words


def _halves(words):
    return np.ascontiguousarray(words).view(np.uint16)
