import keras

from keras_sparse.tables.embedding_variable import EmbeddingVariable


class TableLayer(keras.layers.Layer):
    """Base class of layers with tables: reads and writes rows by key.

    On several ranks, all ranks must call the methods of a layer with sharded tables together and
    with the same arguments. Each rank works on the rows that it owns, and all ranks receive the
    whole result.

    A `padding_id` has no row: `contains` returns `False` for it, `find` returns zeros, and `assign`
    raises `ValueError`.
    """

    def contains(self, keys, table=None):
        """Returns which keys have a row, in any tier.

        Args:
            keys: List, array or tensor of integers of shape `(n,)`. Repeated keys are allowed.
            table: String. Name of the table, for a layer with several tables. Defaults to `None`:
                the only table of the layer.

        Returns:
            Boolean array of shape `(n,)`. Every id in the range of a static table has a row, and no
            id outside has one.
        """
        return self._keyed_table("contains", table).contains(keys)

    def find(self, keys, table=None):
        """Reads the rows of keys with their slots, without creating rows.

        Args:
            keys: List, array or tensor of integers of shape `(n,)`. Repeated keys are allowed.
            table: String. Name of the table, for a layer with several tables. Defaults to `None`:
                the only table of the layer.

        Returns:
            `keras_sparse.tables.table.FindResult` with `exist`, `rows` and `slots`, as
            `EmbeddingVariable.find` documents it.
        """
        return self._keyed_table("find", table).find(keys)

    def assign(self, keys, rows, slots=None, table=None):
        """Writes the rows of keys and creates missing rows.

        Args:
            keys: List, array or tensor of integers of shape `(n,)`. The last row of a repeated key
                is kept.
            rows: List, array or tensor of numbers of shape `(n, output_dim)`.
            slots: Dict from the name of each slot of the optimizer to such rows, as `find` returns
                it. Defaults to `None`: slots stay unchanged, and new rows have initial slots.
            table: String. Name of the table, for a layer with several tables. Defaults to `None`:
                the only table of the layer.
        """
        self._keyed_table("assign", table).assign(keys, rows, slots)

    def erase(self, keys, table=None):
        """Deletes the rows of keys of a dynamic table from all tiers.

        Args:
            keys: List, array or tensor of integers of shape `(n,)`. Keys without a row are skipped.
            table: String. Name of the table, for a layer with several tables. Defaults to `None`:
                the only table of the layer.

        Raises:
            NotImplementedError: The table is static.
        """
        self._keyed_table("erase", table).erase(keys)

    def compact(self, table=None):
        """Rewrites files of lower tiers so that no byte of a deleted row remains.

        See `EmbeddingVariable.compact`.

        Args:
            table: String. Name of the table, for a layer with several tables. Defaults to `None`:
                all tables of the layer.
        """
        tables = self._keyed_tables("compact")
        for each in tables.values() if table is None else [self._keyed_table("compact", table)]:
            each.compact()

    def export(self, chunk_rows=65536, with_ages=False, table=None, with_frequencies=False):
        """Yields all rows in chunks.

        On several ranks, every rank receives all rows of a sharded table and must iterate to the
        end.

        Args:
            chunk_rows: Integer. Approximate number of rows per chunk. Defaults to 65536.
            with_ages: Boolean. Whether to yield the age of each row, in the unit of the eviction
                policy. Defaults to `False`.
            table: String. Name of the table, for a layer with several tables. Defaults to `None`:
                the only table of the layer.
            with_frequencies: Boolean. Whether to yield the number of training steps in which each
                row had a gradient. Defaults to `False`.

        Yields:
            `(keys, records)`, followed by ages and frequencies if requested, as
            `EmbeddingVariable.export` documents them.
        """
        keyed = self._keyed_table("export", table)
        return keyed.export(chunk_rows, with_ages, with_frequencies)

    def lookup_rows(self, ids, table=None):
        """Looks up one row per id of one table, without pooling.

        Differentiable in the table. Each rank receives the rows of its own ids.

        Args:
            ids: Integer tensor of shape `(n,)`. Its length may differ by rank.
            table: String. Name of the table, for a layer with several tables. Defaults to `None`:
                the only table of the layer.

        Returns:
            float32 tensor of shape `(n, output_dim)`.

        Raises:
            ValueError: The table has a `padding_id`, which has no row.
        """
        raise NotImplementedError

    def _refuse_padding(self, padding_id):
        if padding_id is not None:
            raise ValueError(
                "`lookup_rows` must be called on a table without a `padding_id`, because that "
                "id has no row. Leave out the option, and remove padding from the ids. "
                f"Received: layer '{self.name}' with padding_id={padding_id}"
            )

    def table_shape(self, table=None):
        """Returns `(input_dim, output_dim)` of a table.

        Args:
            table: String. Name of the table, for a layer with several tables. Defaults to `None`:
                the only table of the layer.

        Returns:
            Tuple of two integers; `input_dim` is `None` for a dynamic table.
        """
        raise NotImplementedError

    def _keyed_table(self, method, table):
        tables = self._keyed_tables(method)
        return tables[self._table_name(table, list(tables))]

    def _table_name(self, table, names):
        if table is None and len(names) == 1:
            return names[0]
        if table not in names:
            raise ValueError(
                f"`table` must be the name of a table of layer '{self.name}', one of {names}. "
                f"Received: table={table!r}"
            )
        return table

    def _keyed_tables(self, method):
        """Returns a dict from names to the tables that implement these methods."""
        raise NotImplementedError

    def count_params(self):
        count = super().count_params()
        tables = (each for each in self.weights if isinstance(each, EmbeddingVariable))
        return _DynamicCount(count) if any(each.is_dynamic for each in tables) else count


class _DynamicCount(int):
    """A number of parameters that may change; a dynamic table's current count."""

    def __format__(self, spec):
        number = format(int(self), spec)
        return f"{number} (dynamic)" if spec == "," else number  # as `summary()` formats it
