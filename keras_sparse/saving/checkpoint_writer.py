import json
import os
import pathlib
import re
import shutil
import uuid
import zlib

import h5py
import keras
import numpy as np
import tensorflow as tf

from keras_sparse import checks
from keras_sparse import ops
from keras_sparse.saving.careful_hdf5 import careful_hdf5
from keras_sparse.saving.checkpoint_manifest import Base
from keras_sparse.saving.checkpoint_manifest import Manifest
from keras_sparse.saving.checkpoint_manifest import sync
from keras_sparse.saving.checkpoint_manifest import WEIGHTS
from keras_sparse.saving.progress import Progress
from keras_sparse.saving.saved_state import SavedState
from keras_sparse.saving.table_writer import TableWriter
from keras_sparse.saving.tables_elsewhere import tables_elsewhere

_PARTIAL_NAME = re.compile(r"\.(.+)\.[0-9a-f]{16}\.partial")


def write_checkpoint(model, path, base=None, training=None, verbose=True):
    """Writes a checkpoint, or a delta, beside its path and then renames it.

    Args:
        model: A built `keras.Model`.
        path: Path of the folder, which is not there yet.
        base: `SavedState.folder` and `SavedState.id` of what a delta goes on from. Defaults to
            `None`, a checkpoint.
        training: Dict for the manifest.
        verbose: Boolean. Whether to show a bar if it takes long.

    Returns:
        Path of the folder.
    """
    check_model(model)
    path = pathlib.Path(checks.path(path, "path"))
    path = path.parent.resolve() / path.name
    training = _checked(training or {})
    if path.exists():
        raise FileExistsError(
            "`path` must be new: a checkpoint takes no other's place, so that there is always a "
            f"whole one. Remove it first, or choose another name. Received: path='{path}'"
        )
    checks.folder(path.parent, "path")
    new_folders = [each for each in path.parents if not each.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_partial(path.parent, re.compile(re.escape(path.name)))
    checkpoint_id = uuid.uuid4().hex[:16]
    folder = partial_path(path, checkpoint_id)
    folder.mkdir()
    try:
        written = _Written(model, folder, checkpoint_id)
        written.write_tables(base, verbose)
        written.write_manifest(_relative(base, path), training)
        _sync(folder)
        written.check_unchanged()
        _rename(folder, path, {path.parent, *(new.parent for new in new_folders)})
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError) and error.errno and error.filename is None:
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


class _Written:
    """A checkpoint on its way."""

    def __init__(self, model, folder, checkpoint_id):
        self._model = model
        self._folder = folder
        self._id = checkpoint_id
        self._step = _steps_of(model)
        with tables_elsewhere() as self._tables, careful_hdf5():
            model.save_weights(folder / WEIGHTS)
        self._versions, self._is_everything_changed = self._snapshot_versions()
        self._saved: list = []

    def _snapshot_versions(self):
        if not self._tables:
            return np.zeros(0, np.int64), np.zeros(0, bool)
        with tf.init_scope():
            return [tensor.numpy() for tensor in ops.snapshot_versions(self._tables)]

    def write_tables(self, base, verbose):
        num_rows = sum(variable.num_rows for variable in self._tables)
        progress = Progress(num_rows, "thousand rows", 1000, verbose)
        with careful_hdf5(), h5py.File(self._folder / f"rows-{self._id}.h5", "w") as data:
            for index, variable in enumerate(self._tables):
                writer = TableWriter(variable, index, self._folder, data, self._id, progress)
                everything = bool(self._is_everything_changed[index])
                self._saved.append(writer.write(everything, base))
        progress.close()

    def write_manifest(self, base, training):
        Manifest(
            id=self._id,
            base=base,
            step=self._step,
            training=training,
            weights_crc32=zlib.crc32((self._folder / WEIGHTS).read_bytes()),
            file_bytes={path.name: path.stat().st_size for path in sorted(self._folder.iterdir())},
            tables=tuple(table for table, _ in self._saved),
        ).write(self._folder)

    def check_unchanged(self):
        """Raises RuntimeError if the model was trained meanwhile."""
        versions, _ = self._snapshot_versions()
        if _steps_of(self._model) != self._step or not np.array_equal(versions, self._versions):
            raise RuntimeError(
                "A model must not be trained while it is saved. Save between two steps, as "
                "`callbacks.Checkpoint` does"
            )

    def mark_saved(self, path, is_delta):
        """Lets changes count from here, unless the model is being trained already."""
        if not self._tables:
            return
        try:
            with tf.init_scope():
                ops.mark_saved(self._tables, self._versions)
        except tf.errors.FailedPreconditionError:
            return  # they go on to count from where they did
        pairs = zip(self._tables, self._saved, strict=True)
        for index, (variable, (table, is_linked)) in enumerate(pairs):
            # Segments of the table's own tiers are linked anew each time.
            parts = [(path, part) for part in table.parts if not self._is_own_segment(part)]
            if is_delta and not any(part.is_complete for _, part in parts):
                parts = [*variable.saved_state.parts, *parts]
            variable.saved_state = SavedState(path, self._id, index, tuple(parts), is_linked)

    def _is_own_segment(self, part):
        return part.file.startswith(f"{self._id}-")


def _steps_of(model):
    optimizer = getattr(model, "optimizer", None)
    return 0 if optimizer is None else int(optimizer.iterations)


def _relative(base, path):
    return base and Base(os.path.relpath(base.folder, path.parent), base.id)


def partial_path(path, checkpoint_id):
    """Returns the path that a checkpoint has until it is whole, and while it is removed."""
    return path.with_name(f".{path.name}.{checkpoint_id}.partial")


def remove_partial(folder, names):
    """Removes what killed processes have left of checkpoints.

    Args:
        folder: Path of the folder that they were written in.
        names: Pattern of their names.
    """
    for path in pathlib.Path(folder).iterdir():
        match = _PARTIAL_NAME.fullmatch(path.name)
        if match and names.fullmatch(match[1]):
            shutil.rmtree(path, ignore_errors=True)


def _sync(folder):
    """Sees to it that the files are on disk before the folder gets its name."""
    for path in folder.iterdir():
        sync(path)
    sync(folder)


def _rename(folder, path, parents):
    """Gives a folder its name, and sees to it that names are on disk; if it fails, it has not."""
    folder.rename(path)
    try:
        for each in parents:
            sync(each)
    except BaseException:
        path.rename(folder)
        raise
