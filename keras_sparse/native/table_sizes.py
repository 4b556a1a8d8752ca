from keras_sparse.native import library as _native


def table_sizes(variables):
    """Counts rows.

    Args:
        variables: List of `EmbeddingVariable`.

    Returns:
        int64 tensor of shape `(num_tables,)`: `input_dim` of a static table, the rows held by a
        dynamic one.
    """
    return _native.lib.keras_sparse_size(handles=[variable.native for variable in variables])
