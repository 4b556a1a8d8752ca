import abc
import dataclasses
from typing import Any
from typing import NamedTuple
from typing import Protocol

import numpy as np

from keras_sparse.tables.record_layout import RecordLayout


@dataclasses.dataclass(frozen=True, eq=False)
class FindResult:
    """What a table has of some keys, in their order.

    Attributes:
        exist: Boolean array of shape `(n,)`: whether the key has a row.
        rows: float32 array of shape `(n, output_dim)`: what a lookup reads, so the initial row, or
            the default of an admission filter, of a key without one.
        slots: Dict of float32 arrays by the names of the optimizer's slots, of shape `(n,
            output_dim)`, or `(n, 1)` where a slot has one float a row. Of a key without a row they
            are those that a new row begins with.
    """

    exist: np.ndarray
    rows: np.ndarray
    slots: dict[str, np.ndarray]


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


@dataclasses.dataclass(frozen=True)
class RowMetadata:
    """What a dynamic table keeps of each row beside the row and its slots.

    Attributes:
        ages: `"steps"` or `"seconds"`, the unit of the age of a row since its last gradient.
            Defaults to `None`: no ages.
        frequencies: Boolean. Whether the table counts the steps that have a gradient of the row.
            Defaults to `False`.
    """

    ages: str | None = None
    frequencies: bool = False

    @property
    def names(self):
        """Tuple of strings: the fields of a `RowPiece` that have it, in their order."""
        kept = {"ages": self.ages is not None, "frequencies": self.frequencies}
        return tuple(name for name, is_kept in kept.items() if is_kept)


@dataclasses.dataclass(frozen=True)
class TableDescription:
    """What is to be known of a table beside its rows.

    Attributes:
        path: String. Its name in messages and files.
        input_dim: Integer, rows of a static table. `None` for a dynamic one.
        output_dim: Integer. Width of a row.
        rule: String, the native rule of its optimizer. `None` before it has one.
        slot_names: Tuple of strings: what the rule keeps beside each row.
        initial_rows: `keras_sparse.tables.initial_rows.InitialRows` of the whole table.
        admission: A filter of `keras_sparse.storage`, or `None`.
        metadata: `RowMetadata`.
        num_rows: Integer. Rows in the table now.
    """

    path: str
    input_dim: int | None
    output_dim: int
    rule: str | None
    slot_names: tuple[str, ...]
    initial_rows: Any
    admission: Any
    metadata: RowMetadata
    num_rows: int

    @property
    def layout(self):
        """The `RecordLayout` of its records."""
        return RecordLayout(self.output_dim, self.slot_names)


class Table(Protocol):
    """Rows by their keys, with the slots of an optimizer beside them.

    An `EmbeddingVariable` has the methods for users, and so has a layer, which takes the name of
    one of its tables as `table`. A table over ranks is asked by all of them together, with the same
    arguments: each does what it owns, all get the whole answer, and an error of one is raised on
    all. A variable with a part of such a table answers for its part: it says of keys whose rows
    other ranks own that they are not there, with zeros for rows, and leaves them out of what is
    written.

    Each method is one operation on the table: a step beside it comes before it or after it. They
    are called outside of a `tf.function`.

    Attributes:
        input_dim: Integer, rows of a static table. `None` for a dynamic one.
        output_dim: Integer. Width of a row.

    Example:
    >>> table = keras_sparse.EmbeddingVariable(None, 2, initializer="zeros")
    >>> table.assign([7, 2**40], [[1.0, 2.0], [3.0, 4.0]])
    >>> table.find([7, 8]).rows
    array([[1., 2.],
           [0., 0.]], dtype=float32)
    >>> table.erase([7])
    >>> [keys.tolist() for keys, records in table.export()]
    [[1099511627776]]
    """

    input_dim: int | None
    output_dim: int

    @abc.abstractmethod
    def contains(self, keys):
        """Says which keys have a row, in any tier.

        Args:
            keys: List, array or tensor of integers of shape `(n,)`; repeats are fine.

        Returns:
            Boolean array of shape `(n,)`. Every id in the range of a static table has a row, none
            outside has.
        """

    @abc.abstractmethod
    def find(self, keys):
        """Reads the rows of keys, with their slots. It makes no row, and is no lookup.

        Args:
            keys: As of `contains`.

        Returns:
            `keras_sparse.tables.table.FindResult`: `exist`, whether each key has a row;
            `rows`, as a lookup reads them, with the moves of steps that they have missed; `slots`,
            a dict by name. A key without a row has its initial row, or the default of the table's
            admission filter, and slots as a new row begins with them.

        Raises:
            ValueError: An id is outside a static table. With `out_of_range="zero"` it has zeros.
        """

    @abc.abstractmethod
    def assign(self, keys, rows, slots=None):
        """Writes rows of keys.

        Rows that are not there are made, whatever `admission` and `max_rows` say, as where rows are
        loaded. Their age is 0.

        Args:
            keys: As of `contains`; the last row of a repeated key stays.
            rows: List, array or tensor of numbers of shape `(n, output_dim)`.
            slots: Dict of such by the names of all slots, as `find` gives it. Defaults to `None`:
                slots stay as they are, and a new row has initial ones.

        Raises:
            ValueError: Shapes do not fit, or an id is outside a static table. Nothing has changed.
            TypeError: Keys are no integers, or rows no numbers.
        """

    @abc.abstractmethod
    def erase(self, keys):
        """Drops the rows of keys of a dynamic table, from all tiers, as if they had never been.

        Their slots go too, what is fetched ahead of them, and what an admission filter has counted
        of a key that waits for its row (not a `CBFFilter`, whose counters many keys share). The
        next checkpoint is without them, and the next delta tells whoever loads it that they are
        gone. A key that comes again begins anew.

        Args:
            keys: As of `contains`. Keys without a row are left out.

        Raises:
            NotImplementedError: The table is static.
        """

    @abc.abstractmethod
    def compact(self):
        """Leaves no byte of rows that have gone in the files of this table's tiers.

        A row that was erased or evicted, has moved up, or was replaced may lie in the files of
        lower tiers until they are written over. After this call none does that had gone before it.
        And no file that the table was saved to, or loaded from, is linked any more: the next
        checkpoint is of new files. Those of checkpoints, deltas and models that were saved before
        are left as they are, and memory that is free is not cleared.

        `SSDHASH` writes segments with such rows anew, one at a time, and `LEVELDB` all its rows
        where there is one, beside the old ones; `PMEM` fills places with zeros. Steps of the table
        wait for it. A table without files, and a static one, has none but the links to forget.

        Raises:
            tf.errors.ResourceExhaustedError: The disk has no room to write rows anew.
            tf.errors.DataLossError: Rows beside those that have gone cannot be read. As after every
                error, no row is lost, and some files may be as they were: call again.
        """

    def export(self, chunk_rows=65536, with_ages=False, with_frequencies=False):
        """Yields all rows in pieces of about `chunk_rows`.

        Of a variable with a part of a table, ids are those of the whole table, and rows have the
        columns of the part. A table over ranks is gone through to the end by all of them.

        Args:
            chunk_rows: Integer. Defaults to 65536.
            with_ages: Boolean. Whether to yield the age of each row too, as the table's policy
                counts it: in steps, or with `keras_sparse.TimeToLive` in seconds. Defaults to
                `False`.
            with_frequencies: Boolean. Whether to yield too in how many training steps each row had
                a gradient. Defaults to `False`.

        Yields:
            `(keys, records)`: arrays of int64, `(n,)`, and float32, `(n, record_floats)`: the row,
            then its slots, as they are after all steps. With ages, with frequencies, or with both,
            in this order, also an array of uint32, `(n,)`, of each, or `None` if the table does not
            keep them.

        Raises:
            tf.errors.FailedPreconditionError: The table has changed since the piece before.
        """
        for piece in self.export_pieces(chunk_rows):
            yield piece.selected(with_ages, with_frequencies)

    # What saving and serving ask beside these.

    @property
    @abc.abstractmethod
    def local(self):
        """The `LocalTable` that this rank has of it, or `None`."""

    @abc.abstractmethod
    def describe(self) -> TableDescription:
        """Returns the `TableDescription`."""

    @abc.abstractmethod
    def export_pieces(self, chunk_rows):
        """Yields all rows, as `export` does, each time a `RowPiece`."""

    @abc.abstractmethod
    def export_filter(self, max_entries):
        """Yields what the admission filter remembers, in pieces of about `max_entries`.

        Yields:
            `(keys, counts)`: arrays of int64 and of uint32, `(n,)`.
        """

    @abc.abstractmethod
    def checked_keys(self, method, keys):
        """Returns the keys that a method is given as an int64 array, or raises an error."""
