import enum

from keras_sparse.native.staging import collected_lookups
from keras_sparse.saved_model.saved_model_scope import is_for_saved_model


class LookupMode(enum.Enum):
    """What a lookup does where it is called."""

    SAVED_MODEL = enum.auto()  # reads what a SavedModel has of the tables, by ops of TensorFlow
    COLLECT = enum.auto()  # tells its arguments to `collect_lookups`, and gives zeros
    DRY = enum.auto()  # gives zeros: Keras traces a model for its shapes, and has made no table yet
    RUN = enum.auto()


def lookup_mode(variables):
    """Returns the `LookupMode` of a lookup.

    Args:
        variables: List of `EmbeddingVariable`, or of their tables: what it reads or trains.

    Raises:
        ValueError: As of `collected_lookups`.
    """
    if is_for_saved_model():
        return LookupMode.SAVED_MODEL
    collected = collected_lookups()
    for variable in variables:
        if variable.native is None:
            return LookupMode.DRY
    return LookupMode.RUN if collected is None else LookupMode.COLLECT
