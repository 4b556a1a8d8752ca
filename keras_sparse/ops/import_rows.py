from keras_sparse.ops import _native


def import_rows(variables, keys, records):
    """Writes rows into the tables, creating those that are not there.

    Args:
        variables: List of `EmbeddingVariable`.
        keys: List of int64 tensors of shape `(n,)`.
        records: List of float32 tensors: rows of shape `(n, output_dim)`, which leaves the slots of
            existing rows as they are, or whole records of shape `(n, record_floats)`.
    """
    return _native.lib.keras_sparse_import(
        handles=[variable.native for variable in variables], keys=keys, records=records
    )
