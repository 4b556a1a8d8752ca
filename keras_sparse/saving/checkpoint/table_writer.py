import os
import pathlib

import numpy as np
import tensorflow as tf

from keras_sparse import native
from keras_sparse.saving.checkpoint.last_saved import LastSaved
from keras_sparse.saving.format.folder_files import refuse_link
from keras_sparse.saving.keras_files.hdf5_write_errors import check_written
from keras_sparse.saving.table_format.chunks import ChunkWriter
from keras_sparse.saving.table_format.chunks import MAX_ENTRIES
from keras_sparse.saving.table_format.table_entry import History
from keras_sparse.saving.table_format.table_entry import RowsFile
from keras_sparse.saving.table_format.table_entry import SegmentFile
from keras_sparse.saving.table_format.table_entry import TableEntry
from keras_sparse.tables.saved_files import may_be_linked
from keras_sparse.tables.table import RowPiece
from keras_sparse.utils.byte_sizes import CHUNK_BYTES

# A checkpoint of many parts takes long to read, and one of many changed rows is mostly old ones.
_MOST_PARTS = 64
_MOST_OLD_SHARE = 2


class TableWriter:
    """Writes one table of a checkpoint or a delta.

    Args:
        variable: `LocalTable`.
        index: Integer: the table's number in the checkpoint.
        folder: Path that the files go to.
        data: `h5py.File` in that folder, for what is not linked.
        checkpoint_id: String.
        progress: `Progress` that counts rows.
        number: Integer, the place of the table among those of the model, where ranks save those
            that they have parts of. Defaults to `None`: the same as `index`.
    """

    def __init__(self, variable, index, folder, data, checkpoint_id, progress, number=None):
        self._variable = variable
        self._index = index
        self._number = number
        self._folder = folder
        self._data_file = pathlib.Path(data.filename).name
        self._group = data.create_group(str(index))
        self._writer = ChunkWriter(self._group, check_written)
        self._link_prefix = f"{checkpoint_id}-{index}-"
        self._progress = progress
        self._record_words = variable.record_words  # more if the table keeps steps

    def write(self, is_everything_changed, base, links=True):
        """Writes the table's files.

        Args:
            is_everything_changed: Boolean. Whether nothing that was saved before is of use.
            base: `Base` of what a delta goes on from, which then has changed rows alone, if
                this table was there. `None` for a checkpoint.
            links: Boolean. Whether a checkpoint links what was saved before, and segments of SSD
                tiers. Defaults to `True`.

        Returns:
            `(TableEntry, is_linked)`: what the manifest says of the table, and the state's.
        """
        state = None if is_everything_changed else self._variable.saved_state
        if base is not None:
            if state is not None and (state.id, state.index) == (base.id, self._index):
                parts = (self._write_rows(is_complete=False, is_linked=False),)
                return self._describe(parts), state.is_linked
            state = None
        segments = self._link_segments() if links else None
        is_linked = segments is not None
        old_parts = self._take_over(state, is_linked) if links else None
        rows = self._write_rows(is_complete=old_parts is None, is_linked=is_linked)
        parts = (*(old_parts or ()), rows, *(segments or ()))
        return self._describe(parts), is_linked

    def _describe(self, parts):
        variable = self._variable
        return TableEntry(
            name=variable.path,
            input_dim=variable.input_dim,
            output_dim=variable.output_dim,
            rule=variable.rule,
            rule_constants=dict(variable.rule_constants),
            rule_weight_decay=variable.rule_weight_decay,
            slot_names=variable.slot_names,
            record_floats=variable.record_floats,
            record_words=self._record_words,
            metadata=variable.metadata,
            initial_rows=variable.initial_rows,
            history=self._write_history(),
            parts=parts,
            filter=self._writer.put_filter(variable.admission, variable.export_filter(MAX_ENTRIES)),
            group=self._group.name,
            number=self._number,
            part=variable.part,
            accumulated=self._write_accumulated(),
            dtypes=variable.dtypes,
        )

    def _write_accumulated(self):
        rows = self._variable.accumulated
        if not rows:
            return None
        ids, values = rows.ids.numpy(), rows.values.numpy()
        checksums = (
            self._writer.put("accumulated_ids", ids),
            self._writer.put("accumulated_values", values),
        )
        return (len(ids), *checksums)

    def _write_history(self):
        with tf.init_scope():
            (history,) = native.export_history([self._variable])
        lengths, numbers = history.run_lengths.numpy(), history.numbers.numpy()
        num_runs, num_numbers = numbers.shape
        return History(
            int(history.step),
            int(history.first_step),
            int(history.table_step),
            num_runs,
            num_numbers,
            self._writer.put("history_lengths", lengths),
            self._writer.put("history_numbers", numbers),
        )

    def _write_rows(self, is_complete, is_linked):
        pieces = self._export(not is_complete, is_linked)
        chunks, _ = self._writer.put_rows(pieces, (), self._progress)
        erased = np.zeros(0, np.int64) if is_complete else self._erased_keys()
        return RowsFile(
            self._data_file,
            self._group.name,
            is_complete,
            chunks,
            (len(erased), self._writer.put("erased", erased)),
        )

    def _export(self, only_changed, only_unlinked):
        chunk_rows = max(1, CHUNK_BYTES // (4 * self._record_words + 16))
        cursor = 0
        while cursor >= 0:
            with tf.init_scope():
                keys, records, cursor = native.export_raw(
                    self._variable, cursor, chunk_rows, only_changed, only_unlinked
                )
            cursor = int(cursor)
            self._record_words = records.shape[1]
            if len(keys):
                yield RowPiece(keys.numpy(), records.numpy())

    def _erased_keys(self):
        with tf.init_scope():
            return native.erased_keys([self._variable])[0].numpy()

    def _link_segments(self):
        """Returns the parts of the SSD tiers, or `None` if they cannot be linked."""
        try:
            with tf.init_scope():
                linked = native.link_files(self._variable, str(self._folder / self._link_prefix))
        except (tf.errors.FailedPreconditionError, tf.errors.ResourceExhaustedError):
            # On another file system, perhaps: then their rows are copied.
            for path in self._folder.iterdir():
                if path.name.startswith(self._link_prefix):
                    path.unlink()
            return None
        paths, num_entries, alive = (tensor.numpy() for tensor in linked)
        parts: list[SegmentFile] = []
        begin = 0
        for path, number in zip(paths, num_entries.tolist(), strict=True):
            name = pathlib.Path(path.decode()).name
            end = begin + (number + 7) // 8
            dataset = f"alive_{len(parts):06d}"
            checksum = self._writer.put(dataset, alive[begin:end])
            alive_path = f"{self._group.name}/{dataset}"
            num_rows = int(np.unpackbits(alive[begin:end]).sum())
            parts.append(SegmentFile(name, number, num_rows, self._data_file, alive_path, checksum))
            begin = end
        return tuple(parts)

    def _take_over(self, state, is_linked):
        """Links the files of the last checkpoint, and returns its parts, if they are of use."""
        if not self._is_of_use(state, is_linked):
            return None
        linked: list[pathlib.Path] = []
        try:
            for folder, part in state.parts:
                for name in part.files:
                    if not (self._folder / name).exists():
                        refuse_link(folder / name)
                        os.link(folder / name, self._folder / name)
                        linked.append(self._folder / name)
        except (OSError, ValueError):  # gone, on another file system, or a link by now
            for path in linked:
                path.unlink()
            return None
        return tuple(part for _, part in state.parts)

    def _is_of_use(self, state: LastSaved | None, is_linked):
        if state is None or (state.is_linked and not is_linked) or not may_be_linked(state.parts):
            return False
        num_rows = sum(part.num_rows for _, part in state.parts)
        copied = [part for _, part in state.parts if isinstance(part, RowsFile)]
        return len(copied) <= _MOST_PARTS and num_rows <= _MOST_OLD_SHARE * self._variable.num_rows
