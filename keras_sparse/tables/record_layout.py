import numpy as np

# Slots with one float a row, rather than one an element: docs/formats/table.md.
_ROW_SLOTS = ("row_accumulator", "num_decays")


class RecordLayout:
    """The places of row and slots in a record: to cut columns out of records, and to join them.

    Args:
        width: Integer. Width of a row.
        slot_names: Tuple of strings.

    Attributes:
        floats: Integer. Width of row and slots.
        slot_widths: Dict of integers by the names of the slots, in their order.
        row_slots: Tuple of strings: the slots with one float per row.
    """

    def __init__(self, width, slot_names):
        self.width = width
        widths = [width, *(1 if name in _ROW_SLOTS else width for name in slot_names)]
        ends = np.cumsum(widths).tolist()
        self._is_of_row = [name in _ROW_SLOTS for name in (None, *slot_names)]
        self._begins = [0, *ends[:-1]]
        self.floats = ends[-1]
        self.slot_widths = dict(zip(slot_names, widths[1:], strict=True))
        self.row_slots = tuple(name for name in slot_names if name in _ROW_SLOTS)

    def split(self, records):
        """Returns the rows of records, and a dict of the slots by name: views, all of them."""
        rows, *slots = (
            records[:, begin : begin + width]
            for begin, width in zip(
                self._begins, (self.width, *self.slot_widths.values()), strict=True
            )
        )
        return rows, dict(zip(self.slot_widths, slots, strict=True))

    def of_columns(self, number):
        """Returns the layout of records of so many columns, with the same slots."""
        return RecordLayout(number, tuple(self.slot_widths))

    def cut(self, records, first_column, num_columns):
        """Returns records of some columns: of the row, and of each slot that is as wide.

        Words behind the slots, and slots with one float a row, stay as they are.

        Args:
            records: float32 array of shape `(n, at least floats)`.
            first_column, num_columns: Integers.
        """
        if num_columns == self.width:
            return records
        places: list[int] = []
        for begin, is_of_row in zip(self._begins, self._is_of_row, strict=True):
            first = begin if is_of_row else begin + first_column
            places += range(first, first + (1 if is_of_row else num_columns))
        places += range(self.floats, records.shape[1])
        return records[:, places]

    def columns_of(self, part):
        """Yields `(slice here, slice in a record of the part, is_of_row)` for row and slots.

        Args:
            part: `(first_column, RecordLayout)`: the columns of the row here that it has.
        """
        first_column, layout = part
        for here, there, is_of_row in zip(
            self._begins, layout._begins, self._is_of_row, strict=True
        ):
            if is_of_row:
                yield slice(here, here + 1), slice(there, there + 1), True
            else:
                first = here + first_column
                yield slice(first, first + layout.width), slice(there, there + layout.width), False


class JoinedRecords:
    """Records that are put together from those of parts of their columns.

    A slot with one float a row gets the mean over the columns: what the rule would have had for the
    whole row, where it is the mean of a number an element.

    Args:
        layout: `RecordLayout` of the records.
        num_rows: Integer.
    """

    def __init__(self, layout, num_rows):
        self._layout = layout
        self._records = np.zeros((num_rows, layout.floats), np.float32)
        self._sums = np.zeros((num_rows, layout.floats if any(layout._is_of_row) else 0))

    def put(self, rows, first_column, layout, records):
        """Puts records of some columns in.

        Args:
            rows: Slice, or array of integers: which of the records they are of.
            first_column: Integer: their first column here.
            layout: `RecordLayout` of them.
            records: float32 array of shape `(n, layout.floats)`.
        """
        for here, there, is_of_row in self._layout.columns_of((first_column, layout)):
            if is_of_row:
                self._sums[rows, here] += records[:, there] * np.float64(layout.width)
            else:
                self._records[rows, here] = records[:, there]

    def result(self):
        """Returns the records, a float32 array, once all columns were put in."""
        for here, _, is_of_row in self._layout.columns_of((0, self._layout)):
            if is_of_row:
                self._records[:, here] = self._sums[:, here] / self._layout.width
        return self._records
