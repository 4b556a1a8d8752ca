import zlib

import numpy as np

from keras_sparse.saving.table_header import TableHeader

CHUNK_BYTES = 16 << 20


def save_table(variable, store):
    """Writes a table, with its slots, into the store that Keras gives a layer.

    The table is written in chunks, so that it takes no second copy in memory.

    Args:
        variable: `EmbeddingVariable`.
        store: What Keras hands to `save_own_variables`: `store[name] = array`.
    """
    record_bytes = 4 * variable.output_dim * (1 + len(variable.slot_names)) + 16
    chunks: list[tuple[int, int, int, int]] = []
    has_last_steps = False
    for keys, records, last_steps in variable.export(max(1, CHUNK_BYTES // record_bytes)):
        has_last_steps = len(last_steps) > 0
        name = f"{len(chunks):06d}"
        arrays = {"keys": keys, "records": records}
        if has_last_steps:
            arrays["last_steps"] = last_steps
        checksums = {}
        for part, array in arrays.items():
            checksums[part] = zlib.crc32(np.ascontiguousarray(array).data)
            store[f"{part}_{name}"] = array
        chunks.append(
            (len(keys), checksums["keys"], checksums["records"], checksums.get("last_steps", 0))
        )
    TableHeader(
        input_dim=variable.input_dim,
        output_dim=variable.output_dim,
        rule=variable.rule,
        slot_names=variable.slot_names,
        initial_rows=variable.initial_rows,
        chunks=tuple(chunks),
        has_last_steps=has_last_steps,
    ).write(store)
