"""The chunks of a saved table: arrays by their names in a store, each with a checksum."""

import contextlib
import zlib

import numpy as np

from keras_sparse.saving.format.read_dataset import checked_dataset
from keras_sparse.saving.format.read_dataset import is_of_system
from keras_sparse.saving.format.read_dataset import read_dataset
from keras_sparse.saving.table_format.table_header import FilterHeader
from keras_sparse.tables.table import RowPiece
from keras_sparse.utils.byte_sizes import CHUNK_BYTES
from keras_sparse.utils.progress_bar import Progress

MAX_ENTRIES = CHUNK_BYTES // 12  # of a filter, in a chunk


class ChunkWriter:
    """Writes the arrays of a table.

    Args:
        store: What takes them: `store[name] = array`.
        check_written: Function without arguments, called once an array is written, which raises
            what the disk has to say of it.
    """

    def __init__(self, store, check_written):
        self._store = store
        self._check_written = check_written

    def put(self, name, array):
        """Writes an array, and returns its CRC-32."""
        self._store[name] = array
        self._check_written()
        return zlib.crc32(np.ascontiguousarray(array).data)

    def put_rows(self, pieces, names, progress):
        """Writes pieces of rows, each as a chunk.

        Args:
            pieces: Iterable of `RowPiece`.
            names: The fields to write beside keys and records.
            progress: `Progress` that counts rows.

        Returns:
            `(chunks, others)`: a tuple with, for each chunk, its number of rows and the CRC-32 of
            its keys and of its records; a dict of tuples with those of the other fields.
        """
        chunks: list[tuple[int, int, int]] = []
        others: dict[str, list[int]] = {name: [] for name in names}
        for piece in pieces:
            number = f"{len(chunks):06d}"
            keys_crc32 = self.put(f"keys_{number}", piece.keys)
            chunks.append(
                (len(piece.keys), keys_crc32, self.put(f"records_{number}", piece.records))
            )
            for name, checksums in others.items():
                checksums.append(self.put(f"{name}_{number}", getattr(piece, name)))
            progress.add(len(piece.keys))
        return tuple(chunks), {name: tuple(checksums) for name, checksums in others.items()}

    def put_filter(self, admission, entries):
        """Writes what an admission filter remembers.

        Args:
            admission: The filter, of `keras_sparse.storage`, or `None`.
            entries: Iterable of `(keys, counts)`: what `export_filter` of the table yields.

        Returns:
            `FilterHeader`, or `None` if there is nothing to remember.
        """
        chunks: list[tuple[int, int | None, int | None, int]] = []
        for keys, counts in entries:
            number = f"{len(chunks):06d}"
            counts_crc32 = self.put(f"filter_counts_{number}", counts)
            # The counters of a filter that has a fixed number of them have consecutive keys.
            if int(keys[-1]) - int(keys[0]) == len(keys) - 1 and (np.diff(keys) == 1).all():
                chunks.append((len(keys), int(keys[0]), None, counts_crc32))
            else:
                keys_crc32 = self.put(f"filter_keys_{number}", keys)
                chunks.append((len(keys), None, keys_crc32, counts_crc32))
        return FilterHeader(admission.layout(), tuple(chunks)) if chunks else None


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
        dtype, width = header.record_shape
        shape = (num_rows,)
        kept = {
            name: read_array(store, f"{name}_{index:06d}", np.uint32, shape, checksums[index])
            for name, checksums in header.kept_words().items()
        }
        keys = read_array(store, f"keys_{index:06d}", np.int64, shape, keys_crc32)
        name = f"records_{index:06d}"
        records = read_array(store, name, dtype, (num_rows, width), records_crc32)
        if header.packed is not None:
            records = header.packed.unpack(records.view(np.float32))
        yield RowPiece(keys, records, **kept)


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


def find_chunks(header, store):
    """Raises ValueError unless all chunks of a saved table are there, and as long as they were."""
    for index, (num_rows, *_) in enumerate(header.chunks):
        number, shape = f"{index:06d}", (num_rows,)
        _find(store, f"keys_{number}", np.int64, shape)
        dtype, width = header.record_shape
        _find(store, f"records_{number}", dtype, (num_rows, width))
        for name in header.kept_words():
            _find(store, f"{name}_{number}", np.uint32, shape)
    chunks = () if header.filter is None else header.filter.chunks
    for index, (num_entries, _, keys_crc32, _) in enumerate(chunks):
        _find(store, f"filter_counts_{index:06d}", np.uint32, (num_entries,))
        if keys_crc32 is not None:
            _find(store, f"filter_keys_{index:06d}", np.int64, (num_entries,))
    _check_complete(header)


def check_chunks(header, store):
    """Reads a saved table through and raises ValueError unless all of it is as saved."""
    progress = Progress(header.num_rows, "thousand rows checked", 1000)
    for piece in read_chunks(header, store):
        progress.add(len(piece.keys))
    progress.close()
    for _ in read_filter_chunks(header, store):
        pass
    _check_complete(header)


def _check_complete(header):
    if header.input_dim is not None and header.num_rows != header.input_dim:
        raise ValueError(
            "A saved static table must hold all its rows. The file is damaged. Received: "
            f"{header.num_rows} rows of {header.input_dim}"
        )


def read_array(store, name, dtype, shape, checksum):
    """Returns an array of a store, or raises ValueError unless it is what was saved."""
    with _named_error(name):
        array = np.ascontiguousarray(read_dataset(store, name, dtype, shape))
    if zlib.crc32(array.data) != checksum:
        raise ValueError(
            "A saved table's chunks must match their checksums. The file is damaged. Received: "
            f"`{name}` with CRC-32 {zlib.crc32(array.data):#010x}, saved as {checksum:#010x}"
        )
    return array


def _find(store, name, dtype, shape):
    with _named_error(name):
        checked_dataset(store, name, dtype, shape)


@contextlib.contextmanager
def _named_error(name):
    try:
        yield
    except (KeyError, OSError) as error:
        if is_of_system(error):
            raise
        raise ValueError(
            f"A saved table must have all its chunks. The file is damaged. Received: `{name}`: "
            f"{error}"
        ) from error
