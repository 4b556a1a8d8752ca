import dataclasses


@dataclasses.dataclass(frozen=True)
class TableSlice:
    """A rank's part of a table: a range of columns, of all rows or of some of them.

    Attributes:
        rank: Integer.
        first_column: Integer. The columns are those from it to `first_column + num_columns`, that
            one not included.
        num_columns: Integer.
        num_rows: Integer. Rows of the table on this rank; `None` for a dynamic table.
    """

    rank: int
    first_column: int
    num_columns: int
    num_rows: int | None
