from keras_sparse.ops import _native
from keras_sparse.ops.check_tables import handles_of


def clear_tables(variables):
    """Takes the tables back to before training: no rows, or each row its initial one.

    Args:
        variables: List of `EmbeddingVariable`.
    """
    return _native.lib.keras_sparse_clear(handles=handles_of(variables))
