import functools

import keras

from keras_sparse.embedding_variable import EmbeddingVariable
from keras_sparse.saving.careful_hdf5 import careful_hdf5


def _carefully(save):
    """A method of `keras.Model` that saves, made to say where a disk is full."""

    @functools.wraps(save)
    def save_carefully(self, *args, **kwargs):
        if not any(isinstance(variable, EmbeddingVariable) for variable in self.variables):
            return save(self, *args, **kwargs)
        with careful_hdf5():
            return save(self, *args, **kwargs)

    return save_carefully


# As `load_weights`.
keras.Model.save_weights = _carefully(keras.Model.save_weights)
keras.Model.save = _carefully(keras.Model.save)
