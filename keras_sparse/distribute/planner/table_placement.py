import dataclasses

from keras_sparse.distribute.planner.table_slice import TableSlice
from keras_sparse.utils import checks

COLUMN_KINDS = ("table_wise", "column_wise")
KINDS = (*COLUMN_KINDS, "row_wise", "data_parallel")


@dataclasses.dataclass(frozen=True)
class TablePlacement:
    """Describes how a table is placed on ranks.

    Attributes:
        kind: `"table_wise"`, `"column_wise"`, `"row_wise"` or `"data_parallel"`. `"table_wise"`:
            one rank holds the whole table. `"column_wise"`: some ranks hold a range of columns
            each. `"row_wise"`: rank `r` of `n` holds the rows with `key % n == r`, also for
            negative keys. `"data_parallel"`: every rank holds a copy.
        slices: Tuple of `TableSlice`, at most one per rank. Slices of columns are in the order of
            columns, others in the order of ranks.

    Example:
    >>> users = keras_sparse.distribute.TableSpec("users", 1000, 16)
    >>> keras_sparse.distribute.TablePlacement.by_rows(users, num_ranks=2).ranks
    (0, 1)
    """

    kind: str
    slices: tuple[TableSlice, ...]

    @property
    def ranks(self):
        """Tuple of integers: the rank of each slice."""
        return tuple(each.rank for each in self.slices)

    @classmethod
    def whole(cls, table, num_ranks):
        """Returns the placement of a table that is replicated on every rank."""
        slices = [TableSlice(rank, 0, table.width, table.rows) for rank in range(num_ranks)]
        return cls("data_parallel", tuple(slices))

    @classmethod
    def by_rows(cls, table, num_ranks):
        """Returns the placement of a table that is sharded by rows over all ranks."""
        slices = []
        for rank in range(num_ranks):
            # The keys below `rows` with key % num_ranks == rank.
            num_rows = None if table.is_dynamic else (table.rows - rank - 1) // num_ranks + 1
            slices.append(TableSlice(rank, 0, table.width, num_rows))
        return cls("row_wise", tuple(slices))

    @classmethod
    def by_columns(cls, table, parts):
        """Returns the placement of a table on one rank, or sharded by columns.

        Args:
            table: `TableSpec`.
            parts: List of pairs of a rank and a number of columns. Parts on one rank become one
                slice, at the place of the first.
        """
        columns: dict[int, int] = {}
        for rank, num_columns in parts:
            columns[rank] = columns.get(rank, 0) + num_columns
        slices, first_column = [], 0
        for rank, num_columns in columns.items():
            slices.append(TableSlice(rank, first_column, num_columns, table.rows))
            first_column += num_columns
        return cls("table_wise" if len(slices) == 1 else "column_wise", tuple(slices))

    def check(self, table, num_ranks):
        """Raises `ValueError` unless the slices cover the table exactly once."""
        checks.one_of(self.kind, KINDS, "kind")
        parts = [(each.rank, each.num_columns) for each in self.slices]
        if self.kind == "data_parallel":
            expected = self.whole(table, num_ranks)
        elif self.kind == "row_wise":
            expected = self.by_rows(table, num_ranks)
        else:
            expected = self.by_columns(table, parts)
        num_columns = sum(columns for _, columns in parts)
        is_all = self.kind not in COLUMN_KINDS or num_columns == table.width
        is_valid = all(0 <= rank < num_ranks and columns > 0 for rank, columns in parts)
        if self != expected or not (is_all and is_valid):
            raise ValueError(
                f"The slices of table '{table.name}' must cover each of its {table.width} "
                f"columns once, on ranks below {num_ranks}. Received: kind='{self.kind}', "
                f"slices={self.slices}"
            )

    def get_config(self):
        """Returns a JSON-serializable dict."""
        return {"kind": self.kind, "slices": [dataclasses.astuple(each) for each in self.slices]}

    @classmethod
    def from_config(cls, config):
        """Creates the placement that `get_config` describes."""
        return cls(config["kind"], tuple(TableSlice(*each) for each in config["slices"]))
