import abc
from typing import Any
from typing import Protocol

import numpy as np

from keras_sparse.tables.table_part import TablePart


class SavedTable(Protocol):
    """A table, or a part of one, in a file or in a checkpoint.

    Attributes:
        table: `TableHeader` or `TableEntry`.
        part: The `TablePart` that it is, perhaps all of the table.
    """

    table: Any
    part: TablePart

    @property
    def history(self) -> Any:
        """The `native.RuleHistory` of the steps that raw records may have missed.

        `None` where records have made all of their steps: there are no raw ones.
        """
        return None

    @abc.abstractmethod
    def parts(self):
        """Returns the files of its rows, as pairs of folder and part, in the order to read them."""

    def read_erased(self, folder, part):
        """Returns the keys whose rows go before those of a part come: int64, `(n,)`."""
        return np.zeros(0, np.int64)

    @abc.abstractmethod
    def read_pieces(self, folder, part, unit, wanted=None):
        """Yields the `RowPiece` of each chunk of a part, whose records have made all steps.

        Args:
            folder, part: As `parts` gives them.
            unit: String: that of the ages that the reader wants, of its `RowMetadata`, or `None`.
            wanted: List of the numbers of chunks to read. Defaults to `None`: all.
        """

    @abc.abstractmethod
    def read_filter(self):
        """Yields `(keys, counts)` of what the admission filter remembers."""

    def read_accumulated(self):
        """Returns `(ids, values)` of the gradients that the table has accumulated."""
        return np.zeros(0, np.int64), np.zeros((0, self.part.num_columns), np.float32)
