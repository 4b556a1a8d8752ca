from keras_sparse.ops import _native
from keras_sparse.ops.check_tables import handles_of


def import_filter(variables, keys, counts):
    """Writes what `export_filter` has read into filters of the same kind and size.

    Args:
        variables: List of `EmbeddingVariable`.
        keys: List of int64 tensors of shape `(n,)`.
        counts: List of uint32 tensors of shape `(n,)`.
    """
    return _native.lib.keras_sparse_import_filter(
        handles=handles_of(variables), keys=keys, counts=counts
    )
