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
