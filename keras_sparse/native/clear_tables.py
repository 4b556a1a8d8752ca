from keras_sparse.native import library as _native


def clear_tables(variables):
    """Takes the tables back to before training: no rows, or each row its initial one.

    Args:
        variables: List of `EmbeddingVariable`.
    """
    return _native.lib.keras_sparse_clear(handles=[variable.native for variable in variables])
