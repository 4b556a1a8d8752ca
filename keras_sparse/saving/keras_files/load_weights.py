import contextvars
import functools
import pathlib

from keras_sparse import checks
from keras_sparse.saving.keras_files.local_copy import local_copy
from keras_sparse.saving.keras_files.verify_file import verify_file
from keras_sparse.tables.embedding_variable import EmbeddingVariable

# The file that `load_weights` has verified and is loading now.
verified: contextvars.ContextVar = contextvars.ContextVar("verified", default=None)


def verifying(load_weights):
    """Makes `load_weights` of Keras check the tables of a file before Keras loads a layer.

    Keras loads layer by layer: a table that finds itself damaged is too late for the dense layers
    before it.
    """

    @functools.wraps(load_weights)
    def load_verified(model, filepath, *args, **kwargs):
        is_ours = any(isinstance(variable, EmbeddingVariable) for variable in model.variables)
        name = pathlib.Path(filepath).name
        if not is_ours or not name.endswith((".weights.h5", ".weights.json", ".keras")):
            return load_weights(model, filepath, *args, **kwargs)
        with local_copy(checks.path(filepath, "filepath")) as path:
            verify_file(path)
            token = verified.set(path.resolve())
            try:
                return load_weights(model, path, *args, **kwargs)
            finally:
                verified.reset(token)

    return load_verified
