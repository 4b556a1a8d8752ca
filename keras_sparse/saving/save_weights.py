import functools
import os
import pathlib

import keras

from keras_sparse.distribute.runtime import rank
from keras_sparse.distribute.runtime import size
from keras_sparse.distribute.spread_table import SpreadTable
from keras_sparse.distribute.together import together
from keras_sparse.embedding_variable import EmbeddingVariable
from keras_sparse.saving.careful_hdf5 import careful_hdf5
from keras_sparse.saving.files_of_ranks import file_of_rank_0
from keras_sparse.saving.tables_elsewhere import are_tables_elsewhere


def _carefully(save):
    """A method of `keras.Model` that saves, made to say where a disk is full.

    Where tables are spread over ranks all ranks call it, and rank 0 writes the file.
    """

    @functools.wraps(save)
    def save_carefully(self, filepath, *args, **kwargs):
        if size() > 1 and not are_tables_elsewhere() and _is_spread(self):
            _save_on_rank_0(save, self, filepath, *args, **kwargs)
            return
        if not any(isinstance(variable, EmbeddingVariable) for variable in self.variables):
            return save(self, filepath, *args, **kwargs)
        with careful_hdf5():
            return save(self, filepath, *args, **kwargs)

    return save_carefully


def _save_on_rank_0(save, model, filepath, *args, **kwargs):
    with together("save_begins"):
        folder = pathlib.Path(filepath).absolute().parent
        if rank() == 0 and "://" not in str(filepath) and not os.access(folder, os.W_OK):
            raise FileNotFoundError(
                f"`filepath` must be in a folder that can be written to. Received: '{filepath}'"
            )
    with file_of_rank_0(filepath) as path, together("save_ends"), careful_hdf5():
        save(model, path, *args, **kwargs)


def _is_spread(model):
    """Whether ranks have parts of a table of the model: the same on all ranks."""
    layers = model._flatten_layers()
    return any(isinstance(getattr(layer, "table", None), SpreadTable) for layer in layers)


# As `load_weights`.
keras.Model.save_weights = _carefully(keras.Model.save_weights)
keras.Model.save = _carefully(keras.Model.save)
