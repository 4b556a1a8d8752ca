from keras_sparse.ops import _native
from keras_sparse.ops.check_tables import handles_of


def table_sizes(variables):
    """Counts rows.

    Args:
        variables: List of `EmbeddingVariable`.

    Returns:
        int64 tensor of shape `(num_tables,)`: `input_dim` of a static table, the rows held by a
        dynamic one.
    """
    return _native.lib.keras_sparse_size(handles=handles_of(variables))
