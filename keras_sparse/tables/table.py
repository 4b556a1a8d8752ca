import abc
import dataclasses
from typing import Any
from typing import NamedTuple
from typing import Protocol

import numpy as np

from keras_sparse.tables.record_layout import RecordLayout
from keras_sparse.utils.row_dtypes import RowDtypes


@dataclasses.dataclass(frozen=True, eq=False)
class FindResult:
    """The rows and slots that a table has for some keys, in the order of keys.

    Attributes:
        exist: Boolean array of shape `(n,)`. Whether the key has a row.
        rows: float32 array of shape `(n, output_dim)`. The row that a lookup returns. A key without
            a row has its initial row, or the default of an admission filter.
        slots: Dict from the names of the optimizer's slots to float32 arrays of shape
            `(n, output_dim)`, or `(n, 1)` for a slot with one float per row. A key without a row
            has the slots of a new row.
    """

    exist: np.ndarray
    rows: np.ndarray
    slots: dict[str, np.ndarray]


class RowPiece(NamedTuple):
    """A chunk of rows of a table, with everything that the table keeps of them.

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
        """Returns the rows of the chunk that `held` indexes."""
        return RowPiece(*(None if each is None else each[held] for each in self))


@dataclasses.dataclass(frozen=True)
class RowMetadata:
    """Describes what a dynamic table keeps of each row besides the row and its slots.

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
    """Describes a table without its rows.

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
        dtypes: `RowDtypes` of its records.
        rule_step: Integer, the finished steps of the rule, for a table that rounds by them. `None`
            for a float32 table.
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
    dtypes: RowDtypes
    rule_step: int | None

    @property
    def layout(self):
        """The `RecordLayout` of its records."""
        return RecordLayout(self.output_dim, self.slot_names)


class Table(Protocol):
    """Interface of tables: rows and optimizer slots by key.

    `EmbeddingVariable` has these methods, and so have layers, which take the name of one of their
    tables as `table`. On several ranks, all ranks must call the methods of a sharded table together
    and with the same arguments. Each rank works on the rows that it owns, all ranks receive the
    whole result, and an error on one rank is raised on all. A variable that holds a part of such a
    table answers for its part alone: keys of other ranks do not exist, read as zeros, and are not
    written.

    Each method is atomic: a concurrent training step comes before or after it. Call the methods
    outside of a `tf.function`.

    Attributes:
        input_dim: Integer, number of rows of a static table; `None` for a dynamic table.
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
        """Returns which keys have a row, in any tier.

        Args:
            keys: List, array or tensor of integers of shape `(n,)`. Repeated keys are allowed.

        Returns:
            Boolean array of shape `(n,)`. Every id in the range of a static table has a row, and no
            id outside has one.

        Raises:
            RuntimeError: The call is inside a `tf.function`.
            TypeError: Keys are not integers.
        """

    @abc.abstractmethod
    def find(self, keys):
        """Reads the rows of keys with their slots, without creating rows.

        Statistics do not count it as a lookup.

        Args:
            keys: List, array or tensor of integers of shape `(n,)`. Repeated keys are allowed.

        Returns:
            `keras_sparse.tables.table.FindResult`. `exist` tells whether each key has a row. `rows`
            are as a lookup returns them, with missed steps applied. `slots` is a dict by slot name.
            A key without a row has its initial row, or the default of the table's admission filter,
            and the slots of a new row.

        Raises:
            ValueError: An id is outside a static table. With `out_of_range="zero"`, its row is
                zeros instead.
            RuntimeError: The call is inside a `tf.function`.
            TypeError: Keys are not integers.
        """

    @abc.abstractmethod
    def assign(self, keys, rows, slots=None):
        """Writes the rows of keys and creates missing rows.

        Missing rows are created regardless of `admission` and `max_rows`, as when rows are loaded.
        Written rows have age 0.

        Args:
            keys: List, array or tensor of integers of shape `(n,)`. The last row of a repeated key
                is kept.
            rows: List, array or tensor of numbers of shape `(n, output_dim)`.
            slots: Dict from the name of each slot of the optimizer to such rows, as `find` returns
                it. Defaults to `None`: slots stay unchanged, and new rows have initial slots.

        Raises:
            ValueError: Shapes do not match, or an id is outside a static table. The table stays
                unchanged.
            TypeError: Keys are not integers, or rows are not numbers.
            RuntimeError: The call is inside a `tf.function`.
        """

    @abc.abstractmethod
    def erase(self, keys):
        """Deletes the rows of keys of a dynamic table from all tiers.

        Slots and staged rows of the keys are deleted too. So is the count of a key that waits in an
        admission filter, except in a `CBFFilter`, whose counters are shared by many keys. The next
        checkpoint does not contain the rows, and loading the next delta deletes them. A key that is
        trained again starts anew.

        Args:
            keys: List, array or tensor of integers of shape `(n,)`. Keys without a row are skipped.

        Raises:
            NotImplementedError: The table is static.
            RuntimeError: The call is inside a `tf.function`.
        """

    @abc.abstractmethod
    def compact(self):
        """Rewrites files of lower tiers so that no byte of a deleted row remains.

        The files of lower tiers may contain old bytes of rows that were erased, evicted, promoted
        or replaced, until they are overwritten. After this call, no file of the table's tiers
        contains bytes of rows that were gone before the call. The next checkpoint writes new files
        instead of linking saved ones. Checkpoints, deltas and models that were already saved stay
        unchanged, and free memory is not cleared.

        `SSDHASH` rewrites segments with such rows one at a time, `LEVELDB` rewrites all its rows if
        there is such a row, beside the old files, and `PMEM` fills the places with zeros. Steps of
        the table wait meanwhile. For a static table and a table without files, the call only drops
        the links to saved files.

        Raises:
            tf.errors.ResourceExhaustedError: The disk has no room to rewrite rows.
            tf.errors.DataLossError: Rows beside the deleted ones cannot be read. After any error no
                row is lost, but some files may be unchanged: call again.
            RuntimeError: The call is inside a `tf.function`.
        """

    def export(self, chunk_rows=65536, with_ages=False, with_frequencies=False):
        """Yields all rows in chunks.

        A variable that holds a part of a table yields ids of the whole table with the columns of
        its part. For a table that is sharded over ranks, all ranks must iterate to the end.

        Args:
            chunk_rows: Integer. Approximate number of rows per chunk. Defaults to 65536.
            with_ages: Boolean. Whether to yield the age of each row, in steps, or in seconds with
                `keras_sparse.TimeToLive`. Defaults to `False`.
            with_frequencies: Boolean. Whether to yield the number of training steps in which each
                row had a gradient. Defaults to `False`.

        Yields:
            `(keys, records)`: an int64 array of shape `(n,)`, and a float32 array of shape
            `(n, record_floats)` with each row and its slots, all steps applied. If requested,
            followed by uint32 arrays of shape `(n,)` with ages and with frequencies, in this order,
            or by `None` if the table does not keep them.

        Raises:
            tf.errors.FailedPreconditionError: The table has changed since the previous chunk.
        """
        for piece in self.export_pieces(chunk_rows):
            yield piece.selected(with_ages, with_frequencies)

    # For saving and serving.

    @property
    @abc.abstractmethod
    def local(self):
        """The `LocalTable` of this rank, or `None` if the rank has no part."""

    @abc.abstractmethod
    def describe(self) -> TableDescription:
        """Returns the `TableDescription`."""

    @abc.abstractmethod
    def export_pieces(self, chunk_rows):
        """Yields all rows, as `export` does, each time a `RowPiece`."""

    @abc.abstractmethod
    def export_filter(self, max_entries):
        """Yields the state of the admission filter in chunks of about `max_entries`.

        Yields:
            `(keys, counts)`: arrays of int64 and of uint32, `(n,)`.
        """

    @abc.abstractmethod
    def checked_keys(self, method, keys):
        """Returns the keys passed to a method as an int64 array, or raises an error."""
