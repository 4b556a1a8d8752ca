import zlib

import numpy as np

from keras_sparse.saving.careful_hdf5 import check_written
from keras_sparse.saving.progress import Progress
from keras_sparse.saving.save_filter import save_filter
from keras_sparse.saving.table_header import TableHeader
from keras_sparse.saving.tables_elsewhere import save_number
from keras_sparse.table_part import refuse_part

CHUNK_BYTES = 16 << 20


def save_table(variable, store):
    """Writes a table, with its slots and waiting keys, into the store that Keras gives a layer.

    Rows that the table's eviction policy lets go are evicted before, unless its `at_save` is off.
    The table is written in chunks, so that it takes no second copy in memory. Where that takes long
    a bar shows how far it is: one for each table, as Keras saves layer by layer.

    Args:
        variable: `EmbeddingVariable`.
        store: What Keras hands to `save_own_variables`: `store[name] = array`.
    """
    refuse_part(variable, "saved")
    eviction = variable.eviction
    if eviction is not None and eviction.at_save:
        variable.evict()
    if save_number(variable, store):
        return
    keeps_ages = eviction is not None and eviction.needs_ages
    record_bytes = 4 * variable.record_floats + (12 if keeps_ages else 8)
    progress = Progress(variable.num_rows, "thousand rows", 1000)
    chunks: list[tuple[int, int, int]] = []
    ages_crc32: list[int] = []
    for keys, records, ages in variable.export(max(1, CHUNK_BYTES // record_bytes), with_ages=True):
        name = f"{len(chunks):06d}"
        store[f"keys_{name}"] = keys
        store[f"records_{name}"] = records
        chunks.append((len(keys), _crc32(keys), _crc32(records)))
        if keeps_ages:
            store[f"ages_{name}"] = ages
            ages_crc32.append(_crc32(ages))
        check_written()
        progress.add(len(keys))
    progress.close()
    TableHeader(
        input_dim=variable.input_dim,
        output_dim=variable.output_dim,
        rule=variable.rule,
        slot_names=variable.slot_names,
        record_floats=variable.record_floats,
        initial_rows=variable.initial_rows,
        chunks=tuple(chunks),
        filter=save_filter(variable, store),
        ages=tuple(ages_crc32) if keeps_ages else None,
    ).write(store)


def _crc32(array):
    return zlib.crc32(np.ascontiguousarray(array).data)
