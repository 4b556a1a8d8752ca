import dataclasses


@dataclasses.dataclass(frozen=True)
class TableSlice:
    """Describes a rank's part of a table: a range of columns of all or some rows.

    Attributes:
        rank: Integer. The rank that holds the part.
        first_column: Integer. The part has the columns in
            `[first_column, first_column + num_columns)`.
        num_columns: Integer. Number of columns.
        num_rows: Integer. Number of rows on this rank; `None` for a dynamic table.

    Example:
    >>> users = keras_sparse.distribute.TableSpec("users", 1000, 16)
    >>> plan = keras_sparse.distribute.plan_placement([users], num_ranks=2)
    >>> plan.slice_of(0, rank=0) == keras_sparse.distribute.TableSlice(
    ...     rank=0, first_column=0, num_columns=8, num_rows=1000)
    True
    """

    rank: int
    first_column: int
    num_columns: int
    num_rows: int | None
