import contextlib
import json
import os
import pathlib
import tempfile
import uuid

import keras
import numpy as np
import tensorflow as tf

from keras_sparse import native
from keras_sparse.distribute.ranks.collectives import broadcast_object
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.distribute.ranks.shared_errors import errors_on_all_ranks
from keras_sparse.optimizers.support.step_count import accumulation
from keras_sparse.saving.checkpoint.accumulation import write_accumulation
from keras_sparse.saving.checkpoint.checkpoint_manifest import Base
from keras_sparse.saving.checkpoint.checkpoint_manifest import Manifest
from keras_sparse.saving.checkpoint.checkpoint_manifest import NAME as MANIFEST
from keras_sparse.saving.checkpoint.checkpoint_manifest import WEIGHTS
from keras_sparse.saving.checkpoint.last_saved import LastSaved
from keras_sparse.saving.checkpoint.seed_states import gather_seed_states
from keras_sparse.saving.checkpoint.seed_states import write_seed_states
from keras_sparse.saving.checkpoint.table_writer import TableWriter
from keras_sparse.saving.checkpoint.whole_checkpoint import rank_folder
from keras_sparse.saving.format import partial_folder
from keras_sparse.saving.format.external_tables import external_tables
from keras_sparse.saving.format.folder_files import crc32_of
from keras_sparse.saving.keras_files.hdf5_write_errors import hdf5_write_errors
from keras_sparse.saving.keras_files.hdf5_write_errors import new_hdf5_file
from keras_sparse.tables.embedding_variable import EmbeddingVariable
from keras_sparse.utils import checks
from keras_sparse.utils.progress_bar import Progress


def write_checkpoint(model, path, base=None, training=None, verbose=True, links=True):
    """Writes a checkpoint, or a delta, beside its path and then renames it.

    All ranks must call it, with the same path in a folder that all of them see. Each writes what it
    has of the tables into a folder of its own, rank 0 the rest.

    Args:
        model: A built `keras.Model`.
        path: Path of the folder, which is not there yet.
        base: `Base` with the folder of what a delta goes on from. Defaults to `None`, a checkpoint.
        training: Dict for the manifest.
        verbose: Boolean. Whether to show a bar if it takes long.
        links: Boolean. Whether files may be linked that have some of the rows. Defaults to `True`.

    Returns:
        Path of the folder.
    """
    with errors_on_all_ranks("save_checks"):
        check_model(model)
        path = pathlib.Path(checks.local_path(path, "path"))
        path = path.parent.resolve() / path.name
        checks.boolean(links, "links")
        training = _checked(training or {})
    checkpoint_id = broadcast_object(uuid.uuid4().hex[:16], 0, "checkpoint_id")
    folder = partial_folder.partial_path(path, checkpoint_id)
    try:
        with contextlib.ExitStack() as stack:
            with errors_on_all_ranks("save_begins"):
                if rank() == 0:
                    parents = partial_folder.prepare(path)
                    stack.enter_context(partial_folder.passing_folder(path, checkpoint_id))
            with errors_on_all_ranks("save_tables"):
                written = _Written(model, folder, checkpoint_id)
                written.write_tables(base and rank_base(base), verbose, links)
                if size() > 1:
                    written.write_manifest_of_rank(base, path)
            seeds = gather_seed_states(model)
            with errors_on_all_ranks("save_manifest"):
                if rank() == 0:
                    write_seed_states(seeds, folder / WEIGHTS)
                    write_accumulation(model, folder / WEIGHTS)
                    written.write_manifest(_relative(base, path), training)
                    partial_folder.sync_files(folder)
                written.check_unchanged()
            with errors_on_all_ranks("save_ends"):
                if rank() == 0:
                    partial_folder.rename(folder, path, parents)
    except OSError as error:
        if error.errno and error.filename is None:
            error.filename = str(path)
        raise
    written.mark_saved(path, is_delta=base is not None)
    return path


def check_model(model):
    """Raises TypeError unless this is a Keras model, and RuntimeError unless it is built."""
    if not isinstance(model, keras.Model):
        raise TypeError(f"`model` must be a keras.Model. Received: {type(model).__name__}")
    if not model.built:
        raise RuntimeError(
            "`model` must be built, so that there are variables to save or load. Call it once "
            f"first. Received: unbuilt model '{model.name}'"
        )


def _checked(training):
    """Raises ValueError unless JSON gives this dict back."""
    try:
        is_same = isinstance(training, dict) and json.loads(json.dumps(training)) == training
    except (TypeError, ValueError):
        is_same = False
    if not is_same:
        raise ValueError(
            "`training` must be a dict that JSON gives back as it was: keys are strings, values "
            f"are numbers, strings, lists and dicts. Received: training={training!r}"
        )
    return training


def _check_complete(model, tables):
    """Raises an error where a layer has tables that it has not saved."""
    saved = {id(table) for table in tables}
    for variable in model.weights:
        if isinstance(variable, EmbeddingVariable) and id(variable.table) not in saved:
            raise ValueError(
                "A layer of your own must save its tables: give it `save_own_variables` and "
                "`load_own_variables` that call `keras_sparse.saving.save_table` and `load_table`. "
                f"Received: variable '{variable.path}', which its layer does not save"
            )


def _new_rank_folder(folder):
    path = rank_folder(folder, rank())
    try:
        path.mkdir()
    except FileNotFoundError as error:
        raise FileNotFoundError(
            "All ranks must see the folder of a checkpoint: each writes its rows there. Save to a "
            "file system that their hosts share. Received: a folder that rank 0 has made and rank "
            f"{rank()} does not see: '{folder.parent}'"
        ) from error
    return path


class _Written:
    """A checkpoint on its way: what this rank writes of it."""

    def __init__(self, model, folder, checkpoint_id):
        self._model = model
        self._folder = folder
        self._rank_folder = folder
        if size() > 1:
            self._rank_folder = _new_rank_folder(folder)
        self._id = checkpoint_id
        self._step, self._count = _steps_of(model)
        with external_tables() as tables, self._folder_of_weights() as weights:
            model.save_weights(weights / WEIGHTS)
        _check_complete(model, tables)
        self._numbers = [i for i, each in enumerate(tables) if is_saved_here(each)]
        self._tables = [tables[number] for number in self._numbers]
        self._versions, self._is_everything_changed = self._snapshot_versions()
        self._saved: list = []

    @contextlib.contextmanager
    def _folder_of_weights(self):
        """Returns the path of Keras' file. Ranks beside 0 need it for the order of tables alone."""
        if rank() == 0:
            yield self._folder
        else:
            with tempfile.TemporaryDirectory() as folder:
                yield pathlib.Path(folder)

    def _snapshot_versions(self):
        if not self._tables:
            return np.zeros(0, np.int64), np.zeros(0, bool)
        with tf.init_scope():
            return [tensor.numpy() for tensor in native.snapshot_versions(self._tables)]

    def write_tables(self, base, verbose, links):
        num_rows = sum(variable.num_rows for variable in self._tables)
        progress = Progress(num_rows, "thousand rows", 1000, verbose)
        folder = self._rank_folder
        with hdf5_write_errors(), new_hdf5_file(folder / f"rows-{self._id}.h5") as data:
            for index, variable in enumerate(self._tables):
                number = self._numbers[index] if size() > 1 else None
                writer = TableWriter(variable, index, folder, data, self._id, progress, number)
                everything = bool(self._is_everything_changed[index])
                self._saved.append(writer.write(everything, base, links))
        progress.close()

    def write_manifest(self, base, training):
        """Writes that of the checkpoint, once all ranks have written theirs."""
        tables = tuple(table for table, _ in self._saved)
        ranks = None
        if size() > 1:
            paths = [rank_folder(self._folder, number) / MANIFEST for number in range(size())]
            tables, ranks = (), tuple(crc32_of(path) for path in paths)
        Manifest(
            id=self._id,
            base=base,
            step=self._step,
            training=training,
            weights_crc32=crc32_of(self._folder / WEIGHTS),
            file_bytes=_file_bytes(self._folder),
            tables=tables,
            ranks=ranks,
        ).write(self._folder)

    def write_manifest_of_rank(self, base, path):
        """Writes what this rank has saved of a checkpoint that is to be at a path."""
        Manifest(
            id=self._id,
            base=_relative(base and rank_base(base), rank_folder(path, rank())),
            step=self._step,
            training={},
            weights_crc32=None,
            file_bytes=_file_bytes(self._rank_folder),
            tables=tuple(table for table, _ in self._saved),
            rank=rank(),
        ).write(self._rank_folder)
        partial_folder.sync_files(self._rank_folder)

    def check_unchanged(self):
        """Raises RuntimeError if the model was trained meanwhile."""
        versions, _ = self._snapshot_versions()
        is_same = _steps_of(self._model) == (self._step, self._count)
        if not is_same or not np.array_equal(versions, self._versions):
            raise RuntimeError(
                "A model must not be trained while it is saved. Save between two steps, as "
                "`callbacks.Checkpoint` does"
            )

    def mark_saved(self, path, is_delta):
        """Lets changes count from here, unless the model is being trained already."""
        if size() > 1:
            path = rank_folder(path, rank())
        if not self._tables:
            return
        try:
            with tf.init_scope():
                native.mark_saved(self._tables, self._versions)
        except tf.errors.FailedPreconditionError:
            return  # they go on to count from where they did
        pairs = zip(self._tables, self._saved, strict=True)
        for index, (variable, (table, is_linked)) in enumerate(pairs):
            # Segments of the table's own tiers are linked anew each time.
            parts = [(path, part) for part in table.parts if not self._is_own_segment(part)]
            if is_delta and not any(part.is_complete for _, part in parts):
                parts = [*variable.saved_state.parts, *parts]
            variable.saved_state = LastSaved(path, self._id, index, tuple(parts), is_linked)
            variable.saved_files.add(parts)

    def _is_own_segment(self, part):
        return part.file.startswith(f"{self._id}-")


def is_saved_here(variable):
    """Returns whether this rank saves a table: its part, or a copy that all ranks have as rank 0.

    Args:
        variable: `LocalTable`, or `None` for a table that this rank has nothing of.
    """
    return variable is not None and (rank() == 0 or variable.part is not None)


def rank_base(base):
    """Returns the `Base` of what this rank has saved of the base of a delta."""
    return base if size() == 1 else Base(str(rank_folder(pathlib.Path(base.path), rank())), base.id)


def _file_bytes(folder):
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    return {path.name: path.stat().st_size for path in paths}


def _steps_of(model):
    """Returns the updates of the optimizer, and the steps that it has counted."""
    optimizer = getattr(model, "optimizer", None)
    return (0, 0) if optimizer is None else (int(optimizer.iterations), accumulation(optimizer)[1])


def _relative(base, path):
    return base and Base(os.path.relpath(base.path, path.parent), base.id)
