import zlib

import numpy as np

from keras_sparse.saving.format.table_header import FilterHeader
from keras_sparse.utils.byte_sizes import CHUNK_BYTES

MAX_ENTRIES = CHUNK_BYTES // 12


def save_filter(admission, entries, store):
    """Writes what a table's admission filter remembers into the store that Keras gives a layer.

    Args:
        admission: The filter, of `keras_sparse.storage`, or `None`.
        entries: Iterable of `(keys, counts)`: what `export_filter` of the table yields.
        store: What Keras hands to `save_own_variables`: `store[name] = array`.

    Returns:
        `FilterHeader`, or `None` if there is nothing to remember.
    """
    chunks: list[tuple[int, int | None, int | None, int]] = []
    for keys, counts in entries:
        name = f"{len(chunks):06d}"
        store[f"filter_counts_{name}"] = counts
        counts_crc32 = zlib.crc32(counts.data)
        # The counters of a filter that has a fixed number of them have consecutive keys.
        if int(keys[-1]) - int(keys[0]) == len(keys) - 1 and (np.diff(keys) == 1).all():
            chunks.append((len(keys), int(keys[0]), None, counts_crc32))
        else:
            store[f"filter_keys_{name}"] = keys
            chunks.append((len(keys), None, zlib.crc32(keys.data), counts_crc32))
    return FilterHeader(admission.layout(), tuple(chunks)) if chunks else None
