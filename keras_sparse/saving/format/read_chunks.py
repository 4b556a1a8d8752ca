import zlib

import numpy as np

from keras_sparse.saving.format.read_dataset import read_dataset
from keras_sparse.tables.row_piece import RowPiece
from keras_sparse.utils.progress_bar import Progress


def read_chunks(header, store):
    """Yields the chunks of a saved table, each checked against its checksums.

    Args:
        header: `TableHeader` of the table.
        store: Mapping of dataset names to arrays.

    Yields:
        `RowPiece`: as `Table.export_pieces`.

    Raises:
        ValueError: A chunk is missing, of another shape, or its bytes are not those saved.
    """
    for index, (num_rows, keys_crc32, records_crc32) in enumerate(header.chunks):
        width = header.record_floats
        shape = (num_rows,)
        kept = {
            name: read_array(store, f"{name}_{index:06d}", np.uint32, shape, checksums[index])
            for name, checksums in header.kept_words().items()
        }
        yield RowPiece(
            read_array(store, f"keys_{index:06d}", np.int64, shape, keys_crc32),
            read_array(store, f"records_{index:06d}", np.float32, (num_rows, width), records_crc32),
            **kept,
        )


def read_filter_chunks(header, store):
    """Yields the chunks of what a saved table's admission filter remembers, each checked.

    Args:
        header: `TableHeader` of the table.
        store: Mapping of dataset names to arrays.

    Yields:
        `(keys, counts)`: arrays of int64 and of uint32, `(n,)`.

    Raises:
        ValueError: As `read_chunks`.
    """
    chunks = () if header.filter is None else header.filter.chunks
    for index, (num_entries, first, keys_crc32, counts_crc32) in enumerate(chunks):
        shape = (num_entries,)
        counts = read_array(store, f"filter_counts_{index:06d}", np.uint32, shape, counts_crc32)
        if keys_crc32 is None:
            keys = first + np.arange(num_entries, dtype=np.int64)
        else:
            keys = read_array(store, f"filter_keys_{index:06d}", np.int64, shape, keys_crc32)
        yield keys, counts


def check_chunks(header, store):
    """Reads a saved table through and raises ValueError unless all of it is as saved."""
    progress = Progress(header.num_rows, "thousand rows checked", 1000)
    for piece in read_chunks(header, store):
        progress.add(len(piece.keys))
    progress.close()
    for _ in read_filter_chunks(header, store):
        pass
    if header.input_dim is not None and header.num_rows != header.input_dim:
        raise ValueError(
            "A saved static table must hold all its rows. The file is damaged. Received: "
            f"{header.num_rows} rows of {header.input_dim}"
        )


def read_array(store, name, dtype, shape, checksum):
    """Returns an array of a store, or raises ValueError unless it is what was saved."""
    try:
        array = np.ascontiguousarray(read_dataset(store, name, dtype, shape))
    except (KeyError, OSError) as error:
        if is_of_system(error):
            raise
        raise ValueError(
            f"A saved table must have all its chunks. The file is damaged. Received: `{name}`: "
            f"{error}"
        ) from error
    if zlib.crc32(array.data) != checksum:
        raise ValueError(
            "A saved table's chunks must match their checksums. The file is damaged. Received: "
            f"`{name}` with CRC-32 {zlib.crc32(array.data):#010x}, saved as {checksum:#010x}"
        )
    return array


def is_of_system(error):
    """Returns whether an error says nothing of the file: the system has not let it be read.

    h5py raises the same class for what it has read and what is no HDF5, but without a number.
    """
    return getattr(error, "errno", None) is not None
