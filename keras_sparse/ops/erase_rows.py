from keras_sparse import checks
from keras_sparse.ops import _native
from keras_sparse.ops.check_tables import handles_of


def erase_rows(variables, keys):
    """Drops rows from all tiers of dynamic tables.

    Args:
        variables: List of `EmbeddingVariable`.
        keys: List of int64 tensors of shape `(n,)`. A key without a row is left out.
    """
    handles = handles_of(variables)
    checks.same_length({"variables": variables, "keys": keys})
    return _native.lib.keras_sparse_erase_rows(handles=handles, keys=keys)
