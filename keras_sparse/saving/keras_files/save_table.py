import contextlib

import numpy as np

from keras_sparse.distribute.ranks.shared_errors import errors_on_all_ranks
from keras_sparse.distribute.tables.distributed_table import DistributedTable
from keras_sparse.saving.format.external_tables import save_number
from keras_sparse.saving.format.file_context import file_context
from keras_sparse.saving.format.named_store import NamedStore
from keras_sparse.saving.keras_files.hdf5_write_errors import check_written
from keras_sparse.saving.keras_files.shared_file import table_of_all_ranks
from keras_sparse.saving.keras_files.shared_file import writes_nothing
from keras_sparse.saving.table_format.chunks import ChunkWriter
from keras_sparse.saving.table_format.chunks import MAX_ENTRIES
from keras_sparse.saving.table_format.saved_ages import seconds_now
from keras_sparse.saving.table_format.table_header import TableHeader
from keras_sparse.tables.embedding_variable import table_of
from keras_sparse.tables.packed_records import packed_records
from keras_sparse.utils.byte_sizes import CHUNK_BYTES
from keras_sparse.utils.progress_bar import Progress


def save_table(table, store):
    """Writes a table with its slots and waiting keys to the store of a layer.

    Use it in `save_own_variables` of your own layer. Rows that the table's eviction policy selects
    are evicted first, unless its `at_save` is off. The table is written in chunks and needs no
    second copy in memory. If writing takes long, a progress bar is shown for each table.

    Args:
        table: `EmbeddingVariable`, `LocalTable`, or `DistributedTable`. All ranks must save a
            `DistributedTable` together, and rank 0 writes it as a whole.
        store: The store that Keras passes to `save_own_variables`: `store[name] = array`.

    Raises:
        ValueError: `table` is a part of a table, which only its layer can save.
    """
    table = table_of(table)
    if isinstance(store, NamedStore):
        store.table = table
        return
    own = table.local
    if (saved := file_context().saved) is not None:
        saved.append(own)
    if own is not None and own.eviction is not None and own.eviction.at_save:
        own.evict()
    if save_number(own, store):
        return
    if isinstance(table, DistributedTable):
        with table_of_all_ranks():
            _write_distributed(table, store)
        return
    if own.part is not None and not own.part.is_whole:
        raise ValueError(
            "A part of a table must be saved by its layer, because files hold whole tables. "
            f"Received: variable '{own.path}' with {own.part}"
        )
    if not writes_nothing():
        description = own.describe()
        _write(description, _pieces(own, description), own.export_filter(MAX_ENTRIES), store)


def _write_distributed(table, store):
    """Writes the table on rank 0, and raises its error on all ranks."""
    description = table.describe()
    pieces, entries = _pieces(table, description), table.export_filter(MAX_ENTRIES)
    failure = None
    try:
        _write(description, pieces, entries, store)
    except Exception as error:
        failure = error
        for rest in (pieces, entries):
            _go_through(rest)
    with errors_on_all_ranks("save_table"):
        if failure is not None:
            raise failure


def _go_through(pieces):
    # Their errors are raised on all ranks, which then continue together.
    with contextlib.suppress(Exception):
        for _ in pieces:
            pass


def _pieces(table, description):
    record_bytes = 4 * description.layout.floats + 8 + 4 * len(description.metadata.names)
    pieces = table.export_pieces(max(1, CHUNK_BYTES // record_bytes))
    packed = packed_records(description)
    if packed is None:
        return pieces
    # A generator, so that `_go_through` reaches the end of the pieces.
    return (each._replace(records=packed.pack(each.records).view(np.uint32)) for each in pieces)


def _write(table, pieces, entries, store):
    writer = ChunkWriter(store, check_written)
    # Right before the first chunk, because all ages refer to that moment.
    ages_clock = seconds_now() if table.metadata.ages == "seconds" else None
    progress = Progress(table.num_rows, "thousand rows", 1000)
    chunks, metadata = writer.put_rows(pieces, table.metadata.names, progress)
    progress.close()
    TableHeader(
        input_dim=table.input_dim,
        output_dim=table.output_dim,
        rule=table.rule,
        slot_names=table.slot_names,
        record_floats=table.layout.floats,
        initial_rows=table.initial_rows,
        chunks=chunks,
        filter=writer.put_filter(table.admission, entries),
        ages_clock=ages_clock,
        dtypes=table.dtypes,
        rule_step=table.rule_step,
        **metadata,
    ).write(store)
