from keras_sparse.native import library as _native


def erase_rows(variables, keys):
    """Drops rows from all tiers of dynamic tables.

    Args:
        variables: List of `EmbeddingVariable`.
        keys: List of int64 tensors of shape `(n,)`. A key without a row is left out.
    """
    return _native.lib.keras_sparse_erase_rows(
        handles=[variable.native for variable in variables], keys=keys
    )
