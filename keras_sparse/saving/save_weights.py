import functools

import keras

from keras_sparse.embedding_variable import EmbeddingVariable
from keras_sparse.saving.careful_hdf5 import careful_hdf5

_save_weights = keras.Model.save_weights


@functools.wraps(_save_weights)
def save_weights(self, filepath, *args, **kwargs):
    """`keras.Model.save_weights` that makes a full disk an error, where there are tables."""
    if not any(isinstance(variable, EmbeddingVariable) for variable in self.variables):
        return _save_weights(self, filepath, *args, **kwargs)
    with careful_hdf5():
        return _save_weights(self, filepath, *args, **kwargs)


# As `load_weights`.
keras.Model.save_weights = save_weights
