import numpy as np

from keras_sparse.tables.find_result import FindResult


class PaddedKeys:
    """Rows by their keys, of a layer with a `padding_id`: that has none, as in a lookup.

    The methods are those of the table. A row of the padding that was loaded, or is one of a static
    table, stays where it is, and is not seen.

    Args:
        table: `EmbeddingVariable` or `KeysOfRanks`.
        padding_id: Integer, of int64.
        checked_keys: Function of the name of a method and its keys, which returns them as an int64
            array, or raises: on all ranks, where the table is one of theirs.
    """

    def __init__(self, table, padding_id, checked_keys):
        self._table = table
        self._padding_id = padding_id
        self._checked_keys = checked_keys
        self.erase = table.erase
        self.compact = table.compact
        self.export = table.export

    def contains(self, keys):
        """See `EmbeddingVariable.contains`."""
        keys = self._checked_keys("contains", keys)
        return self._table.contains(keys) & (keys != self._padding_id)

    def find(self, keys):
        """See `EmbeddingVariable.find`. The padding has zeros, for slots too."""
        keys = self._checked_keys("find", keys)
        has_row = keys != self._padding_id
        found = self._table.find(keys[has_row])
        if has_row.all():
            return found
        exist, rows, *slots = (
            _spread(each, has_row) for each in (found.exist, found.rows, *found.slots.values())
        )
        return FindResult(exist, rows, dict(zip(found.slots, slots, strict=True)))

    def assign(self, keys, rows, slots=None):
        """See `EmbeddingVariable.assign`.

        Raises:
            ValueError: A key is the padding.
        """
        keys = self._checked_keys("assign", keys)
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
