import tensorflow as tf

from keras_sparse.ops import _native
from keras_sparse.ops.check_tables import handles_of


def import_rows(variables, keys, records, ages=None):
    """Writes rows into the tables, creating those that are not there.

    Args:
        variables: List of `EmbeddingVariable`.
        keys: List of int64 tensors of shape `(n,)`.
        records: List of float32 tensors: rows of shape `(n, output_dim)`, which leaves the slots of
            existing rows as they are, or whole records of shape `(n, record_floats)`.
        ages: List of uint32 tensors of shape `(n,)`, as `export_rows` gives them, or of shape
            `(0,)` for ages of 0. A table that keeps no ages drops them. Defaults to `None`: ages
            of 0.
    """
    if ages is None:
        ages = [tf.zeros((0,), tf.uint32) for _ in variables]
    return _native.lib.keras_sparse_import(
        handles=handles_of(variables), keys=keys, records=records, ages=ages
    )
