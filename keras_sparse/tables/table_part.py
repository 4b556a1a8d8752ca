import dataclasses

from keras_sparse.utils import checks


@dataclasses.dataclass(frozen=True)
class TablePart:
    """The part of a table that a variable holds.

    A part is a range of columns, of all rows or of those of one shard: the rows of the ids with
    `id % num_shards == shard`. A dynamic table keeps them under their own keys; a static one
    without gaps, the row of `id` at the local id `id // num_shards`.

    Args:
        table: String. Name of the whole table.
        input_dim: Integer, rows of the whole table. `None` for a dynamic one.
        output_dim: Integer. Width of a whole row.
        first_column: Integer. The columns are those from it to `first_column + num_columns`, that
            one not included.
        num_columns: Integer.
        shard: Integer in `[0, num_shards)`. Defaults to 0.
        num_shards: Integer. Defaults to 1: the part has all rows.

    Example:
    >>> part = TablePart("users", 10, 8, first_column=2, num_columns=4, shard=1, num_shards=4)
    >>> part.shape
    (3, 4)
    >>> [part.global_ids(local_id) for local_id in range(3)]
    [1, 5, 9]
    """

    table: str
    input_dim: int | None
    output_dim: int
    first_column: int
    num_columns: int
    shard: int = 0
    num_shards: int = 1

    def __post_init__(self):
        checks.positive_or_none(self.input_dim, "input_dim")
        checks.positive(self.output_dim, "output_dim")
        checks.not_negative(self.first_column, "first_column")
        checks.positive(self.num_columns, "num_columns")
        if self.first_column + self.num_columns > self.output_dim:
            raise ValueError(
                "The columns of a part must be among those of its table. Received: first_column="
                f"{self.first_column}, num_columns={self.num_columns} of output_dim="
                f"{self.output_dim}"
            )
        checks.positive(self.num_shards, "num_shards")
        if checks.not_negative(self.shard, "shard") >= self.num_shards:
            raise ValueError(
                f"`shard` must be in [0, {self.num_shards}). Received: shard={self.shard}"
            )

    @property
    def is_dynamic(self):
        """True if the table takes any key."""
        return self.input_dim is None

    @property
    def is_whole(self):
        """True if this is all of the table."""
        return self.num_columns == self.output_dim and self.num_shards == 1

    @property
    def renumbers_ids(self):
        """True if local ids differ from those of the whole table."""
        return self.num_shards > 1 and not self.is_dynamic

    @property
    def num_rows(self):
        """Integer. Rows of a static table in this part, perhaps 0; `None` for a dynamic table."""
        if self.input_dim is None:
            return None
        return (self.input_dim - self.shard - 1) // self.num_shards + 1

    @property
    def shape(self):
        """`(num_rows, num_columns)`: `input_dim` and `output_dim` of a variable with the part."""
        return self.num_rows, self.num_columns

    def holds(self, ids):
        """Says of ids, an integer or an array of int64, whether their rows are in this part."""
        return ids % self.num_shards == self.shard

    def local_ids(self, ids):
        """Returns the ids here of ids of the whole table that this part holds."""
        return ids if self.is_dynamic else ids // self.num_shards

    def global_ids(self, ids):
        """Returns the ids in the whole table of ids here."""
        return ids if self.is_dynamic else ids * self.num_shards + self.shard

    def cut(self, first_id, rows):
        """Cuts what this part has out of some rows of a whole static table.

        Args:
            first_id: Integer. The rows are those of the ids from it on.
            rows: Array of shape `(n, output_dim)`.

        Returns:
            `(first local id, rows)`, the rows being a view of shape `(m, num_columns)`.
        """
        skipped = (self.shard - first_id) % self.num_shards
        columns = slice(self.first_column, self.first_column + self.num_columns)
        first_local_id = (first_id + skipped) // self.num_shards
        return first_local_id, rows[skipped :: self.num_shards, columns]

    @classmethod
    def of_whole(cls, variable):
        """Returns the part that a variable holds: all of its table, if it has no other."""
        return variable.part or cls.whole(variable.path, variable)

    @classmethod
    def whole(cls, name, table):
        """Returns the part that is all of a table of this name, which has its dimensions."""
        return cls(name, table.input_dim, table.output_dim, 0, table.output_dim)

    def initial_rows(self, whole):
        """Returns the `InitialRows` of this part, given those of the whole table."""
        stride, offset = (1, 0) if self.is_dynamic else (self.num_shards, self.shard)
        return dataclasses.replace(
            whole, first_column=self.first_column, key_stride=stride, key_offset=offset
        )


def check_part(part, input_dim, output_dim):
    """Returns the part of a variable; raises unless the variable has its shape.

    Args:
        part: `TablePart`, or `None` for a table of its own.
        input_dim, output_dim: What the variable was given.
    """
    if part is None:
        return None
    if not isinstance(part, TablePart):
        raise TypeError(
            f"`part` must be a `TablePart`. Received: part={part!r} of type {type(part).__name__}"
        )
    if (input_dim, output_dim) != part.shape:
        raise ValueError(
            "A variable with a part of a table must have the part's input_dim and output_dim, "
            f"{part.shape}. Received: input_dim={input_dim}, output_dim={output_dim} with {part}"
        )
    return part


class PartSelector:
    """Cuts what one part of a table takes out of what another part has saved.

    Args:
        part: `TablePart` that takes.
        of: `TablePart` that has; of static ones with the same number of ranks cut by rows, or all.
    """

    def __init__(self, part, of):
        self._part = part
        self._of = of
        is_same = (of.shard, of.num_shards) == (part.shard, part.num_shards)
        self._takes_all_keys = part.num_shards == 1 or is_same

    def keys(self, keys):
        """Returns `(keys here, which)` of keys there: the second indexes what belongs to them."""
        if self._takes_all_keys and self._of.num_shards == 1:
            return keys, slice(None)
        ids = self._of.global_ids(keys)
        self._check_owner(ids)
        held = slice(None) if self._takes_all_keys else self._part.holds(ids)
        return self._part.local_ids(ids[held]), held

    def _check_owner(self, ids):
        foreign = ids[~self._of.holds(ids)]
        if len(foreign) > 0:
            raise ValueError(
                f"A saved part of table '{self._of.table}' must have the rows of its rank alone. "
                "An older version let another rank train rows of its own for them: load a state "
                f"saved before that. Received: key {foreign[0]} in shard {self._of.shard} of "
                f"{self._of.num_shards}"
            )

    def rows(self, piece, layout):
        """Returns a `RowPiece` as it is here.

        Args:
            piece: `RowPiece` there.
            layout: `RecordLayout` of its records.
        """
        keys, held = self.keys(piece.keys)
        piece = piece.of_rows(held)
        first = self._part.first_column - self._of.first_column
        records = layout.cut(piece.records, first, self._part.num_columns)
        return piece._replace(keys=keys, records=records)

    def entries(self, layout, keys, counts):
        """Returns `(keys, counts)` of what an admission filter remembers, as it is here.

        Args:
            layout: Dict, `AdmissionFilter.layout`: of some kinds each filter takes all.
            keys, counts: Arrays, as of `Table.export_filter` there.
        """
        if layout["kind"] != "counter":
            return keys, counts
        keys, held = self.keys(keys)
        return keys, counts[held]
