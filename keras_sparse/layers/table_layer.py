import keras

from keras_sparse.tables.embedding_variable import EmbeddingVariable


class TableLayer(keras.layers.Layer):
    """What layers with tables have in common: rows by their keys, and how `model.summary()` counts.

    On several ranks all must call these methods of a layer that spreads tables over them together,
    with the same arguments: each does what it owns, and all get the whole answer.

    A `padding_id` has no row: `contains` is False, `find` gives zeros, `assign` is a ValueError.
    """

    def contains(self, keys, table=None):
        """Says which keys have a row: see `EmbeddingVariable.contains`.

        Args:
            keys: List, array or tensor of integers of shape `(n,)`.
            table: String: which table, of a layer of several. Defaults to `None`: its only one.
        """
        return self._keyed_table("contains", table).contains(keys)

    def find(self, keys, table=None):
        """Reads the rows of keys, with their slots: see `EmbeddingVariable.find`.

        Args:
            keys, table: As of `contains`.
        """
        return self._keyed_table("find", table).find(keys)

    def assign(self, keys, rows, slots=None, table=None):
        """Writes rows of keys, making those that are not there: see `EmbeddingVariable.assign`.

        Args:
            keys, table: As of `contains`.
            rows: List, array or tensor of numbers of shape `(n, output_dim)`.
            slots: Dict of such by the names of all slots. Defaults to `None`: slots stay.
        """
        self._keyed_table("assign", table).assign(keys, rows, slots)

    def erase(self, keys, table=None):
        """Drops the rows of keys of a dynamic table for good: see `EmbeddingVariable.erase`.

        Args:
            keys, table: As of `contains`.
        """
        self._keyed_table("erase", table).erase(keys)

    def compact(self, table=None):
        """Leaves no byte of rows that have gone in files: see `EmbeddingVariable.compact`.

        Args:
            table: String: which table, of a layer of several. Defaults to `None`: all of them.
        """
        tables = self._keyed_tables("compact")
        for each in tables.values() if table is None else [self._keyed_table("compact", table)]:
            each.compact()

    def export(self, chunk_rows=65536, with_ages=False, table=None, with_frequencies=False):
        """Yields all rows in pieces: see `EmbeddingVariable.export`.

        Of tables over several ranks all ranks get the rows of all, and must go through them to the
        end.

        Args:
            chunk_rows, with_ages, with_frequencies: As of `EmbeddingVariable.export`.
            table: As of `contains`.
        """
        keyed = self._keyed_table("export", table)
        return keyed.export(chunk_rows, with_ages, with_frequencies)

    def lookup_rows(self, ids, table=None):
        """Looks up the row of each id of one table, without pooling.

        Differentiable in the table. Every rank gets the rows of its own ids.

        Args:
            ids: Integer tensor of shape `(n,)`, of another length on each rank.
            table: As of `contains`.

        Returns:
            float32 tensor of shape `(n, output_dim)`.

        Raises:
            ValueError: The table has a `padding_id`, which has no row.
        """
        raise NotImplementedError

    def _refuse_padding(self, padding_id):
        if padding_id is not None:
            raise ValueError(
                "`lookup_rows` must be called on a table without a `padding_id`, whose id has no "
                "row. Leave the option out, and padding out of the ids. Received: layer "
                f"'{self.name}' with padding_id={padding_id}"
            )

    def table_shape(self, table=None):
        """Returns `(input_dim, output_dim)` of a table, `input_dim` being `None` for a dynamic one.

        Args:
            table: As of `contains`.
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
        """Returns a dict of what has these methods, by the names of tables."""
        raise NotImplementedError

    def count_params(self):
        count = super().count_params()
        tables = (each for each in self.weights if isinstance(each, EmbeddingVariable))
        return _DynamicCount(count) if any(each.is_dynamic for each in tables) else count


class _DynamicCount(int):
    """A number of parameters that is what it is now."""

    def __format__(self, spec):
        number = format(int(self), spec)
        return f"{number} (dynamic)" if spec == "," else number  # as `summary()` formats it
