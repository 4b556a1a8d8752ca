import tensorflow as tf

from keras_sparse.ops import _native
from keras_sparse.ops.check_tables import handles_of


def check_room(variables, ids):
    """Says whether an update with these ids would exceed the limit of rows of a table.

    Args:
        variables: List of `EmbeddingVariable`.
        ids: List of int64 tensors.

    Returns:
        Scalar string tensor: why the update would be refused, or nothing.
    """
    if not variables:
        return tf.constant("")
    return _native.lib.keras_sparse_check_room(handles=handles_of(variables), ids=ids)


def refuse_step(refusal, num_refusals):
    """Raises the error of a step that a rank has no room for, on each rank.

    Args:
        refusal: Scalar string tensor: this rank's, as of `check_room`.
        num_refusals: Scalar int32 tensor: how many ranks have one.

    Returns:
        What must have run before anything is changed; `None` where it has run.

    Raises:
        tf.errors.ResourceExhaustedError: A rank has no room.
    """
    return _native.lib.keras_sparse_refuse_step(refusal=refusal, num_refusals=num_refusals)
