"""Writes what Keras' files have, as Keras does, to HDF5 files that keep the errors of their disk.

Keras opens these files by their paths, and HDF5 ends the process if it closes one on a full disk.
"""

import contextlib
import pathlib
import tempfile
import zipfile

from keras.src.saving import saving_lib  # the stores of Keras' files have no public name

from keras_sparse.saving.format.file_context import in_file_context
from keras_sparse.saving.keras_files.hdf5_write_errors import check_written
from keras_sparse.saving.keras_files.hdf5_write_errors import new_hdf5_file
from keras_sparse.tables.embedding_variable import EmbeddingVariable


class _Store(saving_lib.H5IOStore):
    """One HDF5 file."""

    def _get_h5_file(self, path_or_io, mode=None):
        if (mode or self.mode) == "w":
            return new_hdf5_file(path_or_io)
        return super()._get_h5_file(path_or_io, mode)  # a shard that is appended to


class _ShardedStore(_Store, saving_lib.ShardedH5IOStore):
    """Several HDF5 files and their map."""


def write_weights(model, path, max_shard_size=None, objects_to_skip=None):
    """Writes a `.weights.h5`, or a `.weights.json` with its shards.

    Args:
        model: Built `keras.Model`.
        path: String.
        max_shard_size: Number of GB, or `None` for one file.
        objects_to_skip: Layers that are left out, or `None`.
    """
    if max_shard_size is None:
        store = _Store(path, mode="w")
    else:
        store = _ShardedStore(path, max_shard_size, mode="w")
    _save_state(model, store, None, objects_to_skip or ())
    store.close()


def write_archive(model, path):
    """Writes a `.keras` file. Its weights are in a file beside it meanwhile, and not in memory."""
    with (
        tempfile.TemporaryDirectory(dir=pathlib.Path(path).parent) as folder,
        zipfile.ZipFile(path, "w") as archive,
    ):
        for name, text in _descriptions(model).items():
            archive.writestr(name, text)
        assets = saving_lib.DiskIOStore(saving_lib._ASSETS_DIRNAME, archive=archive, mode="w")
        weights = pathlib.Path(folder, saving_lib._VARS_FNAME_H5)
        _write_state(model, weights, assets)
        archive.write(weights, weights.name)


def write_folder(model, path):
    """Writes the folder that a `.keras` file is when it is not zipped."""
    folder = pathlib.Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in _descriptions(model).items():
        (folder / name).write_text(text)
    assets = saving_lib.DiskIOStore(str(folder / saving_lib._ASSETS_DIRNAME), mode="w")
    _write_state(model, folder / saving_lib._VARS_FNAME_H5, assets)


def _descriptions(model):
    """Returns the texts in a `.keras` file by their names."""
    config, metadata = saving_lib._serialize_model_as_json(model)
    return {saving_lib._METADATA_FILENAME: metadata, saving_lib._CONFIG_FILENAME: config}


def _write_state(model, weights, assets):
    with contextlib.closing(assets):
        store = _Store(weights, mode="w")
        _save_state(model, store, assets)
        store.close()
    check_written()


def _save_state(model, store, assets, skipped=()):
    """Writes the state of a model, and raises ValueError if Keras has left a table out."""
    reached = {id(each) for each in skipped}
    saved: list = []
    with in_file_context(saved=saved):
        saving_lib._save_state(model, store, assets, "", reached)
    written = {id(table) for table in saved}
    below = {id(layer) for each in skipped for layer in each._flatten_layers()}
    for layer in model._flatten_layers():
        if id(layer) in reached | below:
            continue
        for variable in _tables_held_by(layer):
            if id(variable.table) not in written:
                raise ValueError(
                    "Keras must reach each layer with a table to save it: in attributes of layers, "
                    "and in lists, tuples or dicts that are. Sets are saved by Keras before 3.15 "
                    "alone, and lists of lists since then. Hold the layer by an attribute or list "
                    f"of its own. Received: table '{variable.path}' of layer '{layer.name}'"
                )


def _tables_held_by(layer):
    """Returns the tables of a layer that none of the layers in it has."""
    inner = layer._flatten_layers(include_self=False)
    others = {id(variable) for each in inner for variable in each.variables}
    own = [each for each in layer.variables if id(each) not in others]
    return [each for each in own if isinstance(each, EmbeddingVariable)]
