import functools
import inspect
import os
import pathlib

import keras

from keras_sparse.distribute.runtime import rank
from keras_sparse.distribute.runtime import size
from keras_sparse.distribute.together import together
from keras_sparse.embedding_variable import EmbeddingVariable
from keras_sparse.saving.careful_hdf5 import careful_hdf5
from keras_sparse.saving.files_of_ranks import file_of_rank_0
from keras_sparse.saving.tables_elsewhere import are_tables_elsewhere


def _carefully(save):
    """A method of `keras.Model` that saves, made to say where a disk is full.

    On several ranks all of them call it for a model with a `DistributedEmbedding`, and rank 0
    writes the file.
    """
    signature = inspect.signature(save)

    @functools.wraps(save)
    def save_carefully(self, filepath, *args, **kwargs):
        if size() > 1 and not are_tables_elsewhere() and _is_saved_together(self):
            call = signature.bind(self, filepath, *args, **kwargs)
            _save_on_rank_0(save, call)
            return
        if not any(isinstance(variable, EmbeddingVariable) for variable in self.variables):
            return save(self, filepath, *args, **kwargs)
        with careful_hdf5():
            return save(self, filepath, *args, **kwargs)

    return save_carefully


def _save_on_rank_0(save, call):
    filepath = call.arguments["filepath"]
    with together("save_begins"):
        if rank() == 0 and "://" not in str(filepath):
            _check_path(filepath, call.arguments.get("overwrite", True))
    call.arguments["overwrite"] = True
    with file_of_rank_0(filepath) as path, careful_hdf5():
        call.arguments["filepath"] = path
        save(*call.args, **call.kwargs)


def _check_path(filepath, overwrite):
    path = pathlib.Path(filepath)
    if not os.access(path.absolute().parent, os.W_OK):
        raise FileNotFoundError(
            f"`filepath` must be in a folder that can be written to. Received: '{filepath}'"
        )
    # Keras would ask at a terminal, which a launcher does not give to its ranks.
    if not overwrite and path.exists():
        raise FileExistsError(
            "`filepath` must be new where several ranks save with `overwrite=False`. Remove it "
            f"first, or choose another name. Received: '{filepath}'"
        )


def _is_saved_together(model):
    """Whether a layer of the model has its tables on all ranks, parts or copies of them.

    That is the same on all ranks, whatever the placement.
    """
    from keras_sparse.layers.table_holder import TableHolder  # which needs this package first

    return any(isinstance(layer, TableHolder) for layer in model._flatten_layers())


# As `load_weights`.
keras.Model.save_weights = _carefully(keras.Model.save_weights)
keras.Model.save = _carefully(keras.Model.save)
