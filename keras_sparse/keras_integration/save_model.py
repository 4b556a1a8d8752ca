"""Saves a model with tables to one of Keras' files: whole or not at all, by one of its ranks."""

import functools
import io
import os
import pathlib

import keras
from keras.src.saving import saving_lib  # what all of Keras' ways to save a model call

from keras_sparse.distribute.ranks.runtime import error_prefix
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.distribute.ranks.shared_errors import errors_on_all_ranks
from keras_sparse.keras_integration.write_files import write_archive
from keras_sparse.keras_integration.write_files import write_folder
from keras_sparse.keras_integration.write_files import write_weights
from keras_sparse.optimizers.support.started_mean import without_started_mean
from keras_sparse.saving.format.external_tables import are_tables_external
from keras_sparse.saving.keras_files.hdf5_write_errors import hdf5_write_errors
from keras_sparse.saving.keras_files.shared_file import rank_0_file
from keras_sparse.saving.keras_files.table_holder import TableHolder
from keras_sparse.saving.keras_files.whole_file import whole_file
from keras_sparse.tables.embedding_variable import tables_of
from keras_sparse.utils import checks

_save_model = saving_lib.save_model
_save_weights_only = saving_lib.save_weights_only


@functools.wraps(_save_model)
def save_model(model, filepath, weights_format="h5", zipped=True):
    """`saving_lib.save_model`, which all ways to save a model as `.keras` call."""
    is_elsewhere = isinstance(filepath, io.IOBase) or (checks.is_url(str(filepath)) and not zipped)
    is_named = str(filepath).endswith(".keras") == zipped  # or Keras refuses it
    if is_elsewhere or not is_named or weights_format != "h5" or not _is_for_us(model):
        _save_model(model, filepath, weights_format, zipped)
    else:
        write = functools.partial(write_archive if zipped else write_folder, model)
        _save(model, checks.path(filepath, "filepath"), write, is_file=zipped)


@functools.wraps(_save_weights_only)
def save_weights_only(model, filepath, max_shard_size=None, objects_to_skip=None):
    """`saving_lib.save_weights_only`, which all ways to save weights call."""
    if not model.built or not _is_for_us(model):
        _save_weights_only(model, filepath, max_shard_size, objects_to_skip)
        return

    def write(path):
        write_weights(model, path, max_shard_size, objects_to_skip)

    path = checks.path(filepath, "filepath")
    if are_tables_external():
        with hdf5_write_errors():
            write(path)
    else:
        _save(model, path, write)


def _is_for_us(model):
    return bool(tables_of(model)) or (size() > 1 and is_saved_together(model))


def is_saved_together(model):
    """Returns whether a layer of the model has its tables on all ranks, parts or copies of them.

    That is the same on all ranks, whatever the placement.
    """
    return any(isinstance(layer, TableHolder) for layer in model._flatten_layers())


def _save(model, filepath, write, is_file=True):
    """Saves a model whole, or leaves what is at the path as it was.

    On several ranks all of them call it for a model with a `DistributedEmbedding`, and rank 0
    writes the file.

    Args:
        model: `keras.Model`.
        filepath: String.
        write: Function of the path to write to.
        is_file: Boolean. Whether a file is written, or a folder, which one process writes in place.
    """
    with without_started_mean(getattr(model, "optimizer", None), tables_of(model)):
        if size() > 1 and is_saved_together(model):
            with errors_on_all_ranks("save_begins"):
                if rank() == 0 and not checks.is_url(filepath):
                    _check_folder(filepath)
            with rank_0_file(filepath) as path:
                _write_whole(write, path)
        elif is_file:
            _write_whole(write, filepath)
        else:
            with hdf5_write_errors():
                write(filepath)


def _write_whole(write, filepath):
    with whole_file(filepath) as new_path, hdf5_write_errors():
        write(new_path)


def _check_folder(filepath):
    if not os.access(pathlib.Path(filepath).absolute().parent, os.W_OK):
        raise FileNotFoundError(
            f"`filepath` must be in a folder that can be written to. Received: '{filepath}'"
        )


_begin_backup = keras.callbacks.BackupAndRestore.on_train_begin


@functools.wraps(_begin_backup)
def begin_backup(callback, logs=None):
    """`BackupAndRestore.on_train_begin`, which refuses a model that ranks save together.

    Each rank would look for the backup, copy and remove its folder by itself, while others write.
    """
    if size() > 1 and is_saved_together(callback.model):
        raise NotImplementedError(
            f"{error_prefix()}BackupAndRestore must be given to a model that one process saves. "
            "Ranks that train together take `keras_sparse.callbacks.Checkpoint(folder)`, which "
            "goes on from where training was cut off, too. Received: BackupAndRestore with "
            f"backup_dir='{callback.backup_dir}' on {size()} ranks"
        )
    _begin_backup(callback, logs)
