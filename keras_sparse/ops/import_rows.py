import tensorflow as tf

from keras_sparse.ops import _native


def import_rows(variables, keys, records, last_steps=None):
    """Writes rows into the tables, creating those that are not there.

    Args:
        variables: List of `EmbeddingVariable`.
        keys: List of int64 tensors of shape `(n,)`.
        records: List of float32 tensors: rows of shape `(n, output_dim)`, which leaves the slots of
            existing rows as they are, or whole records of shape `(n, record_floats)`.
        last_steps: List of int64 tensors of shape `(n,)`, or `(0,)` where the rule keeps no step.
            Defaults to `None`, that for all.
    """
    if last_steps is None:
        last_steps = [tf.zeros((0,), tf.int64)] * len(variables)
    return _native.lib.keras_sparse_import(
        handles=[variable.native for variable in variables],
        keys=keys,
        records=records,
        last_steps=last_steps,
    )
