import numpy as np

from keras_sparse.tables.table import FindResult


class PaddedTable:
    """The table of a layer with a `padding_id`, which has no row in it, as in a lookup.

    The methods for users are those of `Table`. A row of the padding that was loaded, or is one of a
    static table, stays where it is, and is not seen.

    Args:
        table: `Table`.
        padding_id: Integer, of int64.
    """

    def __init__(self, table, padding_id):
        self._table = table
        self._padding_id = padding_id
        self.erase = table.erase
        self.compact = table.compact
        self.export = table.export

    def contains(self, keys):
        """See `Table.contains`."""
        keys = self._table.checked_keys("contains", keys)
        return self._table.contains(keys) & (keys != self._padding_id)

    def find(self, keys):
        """See `Table.find`. The padding has zeros, for slots too."""
        keys = self._table.checked_keys("find", keys)
        has_row = keys != self._padding_id
        found = self._table.find(keys[has_row])
        if has_row.all():
            return found
        exist, rows, *slots = (
            _spread(each, has_row) for each in (found.exist, found.rows, *found.slots.values())
        )
        return FindResult(exist, rows, dict(zip(found.slots, slots, strict=True)))

    def assign(self, keys, rows, slots=None):
        """See `Table.assign`.

        Raises:
            ValueError: A key is the padding.
        """
        keys = self._table.checked_keys("assign", keys)
        padding = np.flatnonzero(keys == self._padding_id)
        if len(padding):
            raise ValueError(
                f"`keys` must not have the layer's padding_id={self._padding_id}, which has no row "
                f"that a lookup could read. Leave it out. Received: keys[{padding[0]}] = "
                f"{self._padding_id}"
            )
        self._table.assign(keys, rows, slots)


def _spread(values, places):
    """Returns an array with values at places, and zeros elsewhere."""
    spread = np.zeros((len(places), *values.shape[1:]), values.dtype)
    spread[places] = values
    return spread
