from typing import Any
from typing import NamedTuple


class RowPiece(NamedTuple):
    """Some rows of a table, with all that it keeps of them.

    Attributes:
        keys: int64 array of shape `(n,)`.
        records: float32 array of shape `(n, floats)`: the row, then its slots.
        ages: uint32 array of shape `(n,)`, or `None` where none are kept.
        frequencies: uint32 array of shape `(n,)`, or `None` where none are kept.
    """

    keys: Any
    records: Any
    ages: Any = None
    frequencies: Any = None

    def selected(self, with_ages, with_frequencies):
        """Returns the tuple that a table's `export` yields."""
        ages = (self.ages,) if with_ages else ()
        frequencies = (self.frequencies,) if with_frequencies else ()
        return (self.keys, self.records, *ages, *frequencies)

    def of_rows(self, held):
        """Returns the piece of some of the rows: those that `held` indexes."""
        return RowPiece(*(None if each is None else each[held] for each in self))
