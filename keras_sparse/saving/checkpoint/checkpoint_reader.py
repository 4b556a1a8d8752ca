import contextlib
import errno
import os
import pathlib

import h5py
import numpy as np
import tensorflow as tf

from keras_sparse import native
from keras_sparse.saving.checkpoint.checkpoint_manifest import Manifest
from keras_sparse.saving.format.damage_error import CheckpointDamagedError
from keras_sparse.saving.format.damage_error import PARSER_ERRORS
from keras_sparse.saving.format.folder_files import check_files
from keras_sparse.saving.format.read_dataset import is_of_system
from keras_sparse.saving.format.read_dataset import member
from keras_sparse.saving.table_format.chunks import read_array
from keras_sparse.saving.table_format.chunks import read_filter_chunks
from keras_sparse.saving.table_format.table_entry import RowsFile
from keras_sparse.utils import checks
from keras_sparse.utils.byte_sizes import CHUNK_BYTES


class CheckpointReader:
    """Reads a checkpoint, or a delta with all that it goes back to.

    Every array is checked against its checksum as it is read.

    Args:
        path: Path of the folder.

    Raises:
        FileNotFoundError: There is no checkpoint, or not all that a delta goes back to.
        CheckpointDamagedError: A manifest is damaged, or a file is not as long as it was.
        OSError: The system does not let it be read, which says nothing of the checkpoint.
    """

    def __init__(self, path):
        self.folder = pathlib.Path(checks.local_path(path, "path")).resolve()
        self.manifest = Manifest.read(self.folder)
        chain = [(self.folder, self.manifest)]
        while (base := chain[0][1].base) is not None:
            folder = (chain[0][0].parent / base.path).resolve()
            if any(folder == later for later, _ in chain):
                raise CheckpointDamagedError(
                    "A delta must go back to a checkpoint, through other deltas alone. Received: "
                    f"'{self.folder}', which goes back to '{folder}' again"
                )
            chain.insert(0, (folder, _read_base(folder, base, self.folder)))
        self._chain = chain
        for folder, manifest in chain:
            check_files(folder, manifest)

    def parts(self, index):
        """Returns the parts of a table, as pairs of folder and part, in the order to read them."""
        parts: list = []
        for folder, manifest in self._chain:
            # A table that is new in a delta is complete there.
            for part in manifest.tables[index].parts if index < len(manifest.tables) else ():
                if isinstance(part, RowsFile) and part.is_complete:
                    parts.clear()
                parts.append((folder, part))
        return parts

    def num_records(self):
        """Returns how many records reading all tables gives."""
        indexes = range(len(self.manifest.tables))
        return sum(part.num_rows for index in indexes for _, part in self.parts(index))

    def history(self, index):
        """Returns the `native.RuleHistory` of a table."""
        table = self.manifest.tables[index]
        saved = table.history
        shape = (saved.num_runs, saved.num_numbers)
        with self._open_group(table) as group:
            lengths = read_array(group, "history_lengths", np.int64, shape[:1], saved.lengths_crc32)
            numbers = read_array(group, "history_numbers", np.float32, shape, saved.numbers_crc32)
        return native.RuleHistory(saved.step, saved.first_step, saved.table_step, lengths, numbers)

    @contextlib.contextmanager
    def _open_group(self, table):
        with _open(self.folder / self.manifest.data_file) as file:
            yield member(file, table.group)

    def read_erased(self, folder, part):
        """Returns the keys whose rows go before those of a part come: int64, `(n,)`."""
        if not isinstance(part, RowsFile) or part.erased[0] == 0:
            return np.zeros(0, np.int64)
        number, checksum = part.erased
        with _open(folder / part.file) as file:
            return read_array(member(file, part.group), "erased", np.int64, (number,), checksum)

    def read_keys(self, folder, part):
        """Yields the keys of each chunk of a part of rows."""
        with _open(folder / part.file) as file:
            for i, (number, checksum, _) in enumerate(part.chunks):
                name = f"{part.group}/keys_{i:06d}"
                yield read_array(file, name, np.int64, (number,), checksum)

    def read(self, index, folder, part, wanted=None):
        """Yields `(keys, records)` of a part, as `native.export_raw` has given them.

        Args:
            index: Integer: the number of the table.
            folder, part: As `parts` gives them.
            wanted: List of the numbers of chunks to read, of a part of rows. Defaults to `None`:
                all.
        """
        words = self.manifest.tables[index].record_words
        if not isinstance(part, RowsFile):
            yield from _read_segment(folder, part, words)
            return
        with _open(folder / part.file) as file:
            group = member(file, part.group)
            for i in range(len(part.chunks)) if wanted is None else wanted:
                number, keys_crc32, records_crc32 = part.chunks[i]
                shape = (number, words)
                yield (
                    read_array(group, f"keys_{i:06d}", np.int64, (number,), keys_crc32),
                    read_array(group, f"records_{i:06d}", np.float32, shape, records_crc32),
                )

    def read_filter(self, index):
        """Yields `(keys, counts)` of what a table's admission filter remembers."""
        table = self.manifest.tables[index]
        if table.filter is not None:
            with self._open_group(table) as group:
                yield from read_filter_chunks(table, group)

    def read_accumulated(self, index):
        """Returns `(ids, values)` of the gradients that a table has accumulated."""
        table = self.manifest.tables[index]
        if table.accumulated is None:
            return np.zeros(0, np.int64), np.zeros((0, table.output_dim), np.float32)
        number, ids_crc32, values_crc32 = table.accumulated
        shape = (number, table.output_dim)
        with self._open_group(table) as group:
            return (
                read_array(group, "accumulated_ids", np.int64, (number,), ids_crc32),
                read_array(group, "accumulated_values", np.float32, shape, values_crc32),
            )

    def check(self, progress):
        """Reads all tables once.

        Args:
            progress: `Progress` that counts records.

        Raises:
            CheckpointDamagedError: A file is damaged.
        """
        for index in range(len(self.manifest.tables)):
            for folder, part in self.parts(index):
                self.read_erased(folder, part)
                for keys, _ in self.read(index, folder, part):
                    progress.add(len(keys))
            for _ in self.read_filter(index):
                pass
            self.history(index)
            self.read_accumulated(index)


def _read_base(folder, base, delta):
    try:
        manifest = Manifest.read(folder)
    except FileNotFoundError:
        manifest = None
    if manifest is None or manifest.id != base.id:
        raise FileNotFoundError(
            "A delta must find the checkpoint and the deltas before it where they were when it was "
            f"saved, seen from its own place. Received: '{delta}', which goes back to '{folder}': "
            f"{'there is none' if manifest is None else 'another checkpoint is there'}"
        )
    return manifest


@contextlib.contextmanager
def _open(path):
    try:
        with h5py.File(checks.regular_file(path), "r") as file:
            yield file
    except (OSError, *PARSER_ERRORS) as error:
        if is_of_system(error):
            raise
        raise CheckpointDamagedError(f"{error}. File: {path}") from error


def _read_segment(folder, part, words):
    with _open(folder / part.alive_file) as file:
        num_bytes = (part.num_entries + 7) // 8
        alive = read_array(file, part.alive_path, np.uint8, (num_bytes,), part.alive_crc32)
    if 4 * words * part.num_entries > os.path.getsize(folder / part.file):
        raise CheckpointDamagedError(
            "A segment must be as long as its entries. The checkpoint is damaged. Received: "
            f"{folder / part.file} for {part.num_entries} entries of {words} words"
        )
    is_alive = np.unpackbits(alive, count=part.num_entries, bitorder="little").astype(bool)
    step = max(1, CHUNK_BYTES // (4 * words + 12))
    for first in range(0, part.num_entries, step):
        wanted = is_alive[first : first + step]
        if not wanted.any():
            continue
        try:
            read = native.read_segment(folder / part.file, words, first, wanted)
        except tf.errors.OpError as error:
            is_read = isinstance(error, (tf.errors.DataLossError, tf.errors.InvalidArgumentError))
            if not is_read or os.strerror(errno.EIO) in error.message:
                raise OSError(error.message) from error
            raise CheckpointDamagedError(error.message) from error
        yield read
