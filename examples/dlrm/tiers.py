"""How the tiers of a storage type are shared out among the tables."""

import math

import keras_sparse
from keras_sparse.utils.byte_sizes import parse_bytes

# A table that is a smaller part of all rows than this is in the first tier whole.
_SMALL_PART = 1 / 1000
_ENTRY_BYTES = 40  # beside a row and its slots in memory; in a file they are fewer
_LEAST_BYTES = 64 << 20


class Tiers:
    """Gives large tables a part of the first tier as they are a part of all rows.

    Args:
        storage_type: String, of `keras_sparse.StorageType`, such as `"DRAM_SSDHASH"`.
        path: Folder for lower tiers on a disk.
        first_tier: Bytes of a rank's first tier, or a string such as `"4GiB"`.
        num_ids: List: how many ids each category has.
        row_bytes: Integer. Of a row and its slots.
    """

    def __init__(self, storage_type, path, first_tier, num_ids, row_bytes):
        self._tiers = keras_sparse.StorageType(storage_type).tiers
        self._given = storage_type, path
        self._first_tier = parse_bytes(first_tier, "first_tier")
        self._num_all_ids = sum(num_ids)
        self._row_bytes = row_bytes

    def of(self, num_ids):
        """Returns the `StorageOption` of a table of so many ids; `None` for one in memory alone."""
        part = num_ids / self._num_all_ids
        if len(self._tiers) == 1 or part < _SMALL_PART:
            first = self._tiers[0]
            return None if first == "DRAM" else keras_sparse.StorageOption(first)
        rows = math.ceil(num_ids / keras_sparse.distribute.size())
        # A fifth is room for compaction.
        last = rows * (self._row_bytes + _ENTRY_BYTES) * 6 // 5 + _LEAST_BYTES
        sizes = [math.ceil(part * self._first_tier), last]
        return keras_sparse.StorageOption(*self._given, sizes)
