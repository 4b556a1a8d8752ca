import contextvars
import functools
import pathlib

import keras

from keras_sparse.embedding_variable import EmbeddingVariable
from keras_sparse.saving.verify import verify

# The file that `load_weights` has verified and is loading now.
verified: contextvars.ContextVar = contextvars.ContextVar("verified", default=None)

_load_weights = keras.Model.load_weights


@functools.wraps(_load_weights)
def load_weights(self, filepath, skip_mismatch=False, **kwargs):
    """`keras.Model.load_weights` that checks the tables of a file before Keras loads a layer.

    Keras loads layer by layer: a table that finds itself damaged is too late for the dense layers
    before it.
    """
    path = pathlib.Path(filepath)
    is_ours = any(isinstance(variable, EmbeddingVariable) for variable in self.variables)
    if not is_ours or not path.name.endswith((".weights.h5", ".weights.json")):
        return _load_weights(self, filepath, skip_mismatch, **kwargs)
    verify(path)
    token = verified.set(path.resolve())
    try:
        return _load_weights(self, filepath, skip_mismatch, **kwargs)
    finally:
        verified.reset(token)


# A model is of the user's own class, so that there is no class of ours to put this in.
keras.Model.load_weights = load_weights
