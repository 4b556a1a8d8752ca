import zlib

import numpy as np

from keras_sparse.saving.save_filter import save_filter
from keras_sparse.saving.table_header import TableHeader
from keras_sparse.saving.tables_elsewhere import save_number

CHUNK_BYTES = 16 << 20


def save_table(variable, store):
    """Writes a table, with its slots and waiting keys, into the store that Keras gives a layer.

    The table is written in chunks, so that it takes no second copy in memory.

    Args:
        variable: `EmbeddingVariable`.
        store: What Keras hands to `save_own_variables`: `store[name] = array`.
    """
    if save_number(variable, store):
        return
    record_bytes = 4 * variable.record_floats + 8
    chunks: list[tuple[int, int, int]] = []
    for keys, records in variable.export(max(1, CHUNK_BYTES // record_bytes)):
        name = f"{len(chunks):06d}"
        store[f"keys_{name}"] = keys
        store[f"records_{name}"] = records
        checksums = [zlib.crc32(np.ascontiguousarray(array).data) for array in (keys, records)]
        chunks.append((len(keys), checksums[0], checksums[1]))
    TableHeader(
        input_dim=variable.input_dim,
        output_dim=variable.output_dim,
        rule=variable.rule,
        slot_names=variable.slot_names,
        record_floats=variable.record_floats,
        initial_rows=variable.initial_rows,
        chunks=tuple(chunks),
        filter=save_filter(variable, store),
    ).write(store)
