import dataclasses

from keras_sparse.distribute.planner.table_slice import TableSlice
from keras_sparse.utils import checks

COLUMN_KINDS = ("table_wise", "column_wise")
KINDS = (*COLUMN_KINDS, "row_wise", "data_parallel")


@dataclasses.dataclass(frozen=True)
class TablePlacement:
    """The place of a table.

    Attributes:
        kind: `"table_wise"`: one rank has all of it. `"column_wise"`: some ranks have a range of
            columns each. `"row_wise"`: rank `r` of `n` has the rows of the keys with
            `key % n == r`, of negative keys too. `"data_parallel"`: every rank has all of it.
        slices: Tuple of `TableSlice`, one a rank at most. Those of columns are in the order of
            columns, the others in the order of ranks.

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
        """Returns the placement of a table that every rank has all of."""
        slices = [TableSlice(rank, 0, table.width, table.rows) for rank in range(num_ranks)]
        return cls("data_parallel", tuple(slices))

    @classmethod
    def by_rows(cls, table, num_ranks):
        """Returns the placement of a table of which each rank has the keys that are its own."""
        slices = []
        for rank in range(num_ranks):
            # Of the keys 0 to rows - 1 those with key % num_ranks == rank.
            num_rows = None if table.is_dynamic else (table.rows - rank - 1) // num_ranks + 1
            slices.append(TableSlice(rank, 0, table.width, num_rows))
        return cls("row_wise", tuple(slices))

    @classmethod
    def by_columns(cls, table, parts):
        """Returns the placement of a table whose columns are spread, or that one rank has.

        Args:
            table: `TableSpec`.
            parts: List of pairs of a rank and a number of columns. What a rank has of them becomes
                one slice, where its first part is.
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
        """Raises `ValueError` unless the slices are all of the table, once."""
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
                f"The slices of table '{table.name}' must be all of its {table.width} columns, "
                f"once, on ranks below {num_ranks}. Received: kind='{self.kind}', "
                f"slices={self.slices}"
            )

    def get_config(self):
        """Returns a dict that can be written as JSON."""
        return {"kind": self.kind, "slices": [dataclasses.astuple(each) for each in self.slices]}

    @classmethod
    def from_config(cls, config):
        """Makes the placement that `get_config` describes."""
        return cls(config["kind"], tuple(TableSlice(*each) for each in config["slices"]))
