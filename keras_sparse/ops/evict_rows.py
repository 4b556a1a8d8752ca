import tensorflow as tf

from keras_sparse.ops import _native
from keras_sparse.ops.check_tables import handles_of
from keras_sparse.storage.eviction_policy import check_policy


def evict_rows(variables, eviction, with_rows=False):
    """Drops the rows of dynamic tables, in all their tiers, that a policy lets go.

    Args:
        variables: List of `EmbeddingVariable`.
        eviction: A policy of `keras_sparse.storage`. One that asks for ages must be that of the
            tables, which otherwise do not remember them.
        with_rows: Boolean. Whether to return the rows too. Defaults to `False`.

    Returns:
        int64 tensor of shape `(num_tables,)`: how many rows went. With rows `(num_evicted, keys,
        records)`: also a list of int64 tensors of shape `(n,)`, and one of float32 tensors of shape
        `(n, record_floats)`, as `export_rows` would have given them.
    """
    handles = handles_of(variables)
    check_policy(eviction)
    constants = eviction.constants()
    num_evicted, keys, records = _native.lib.keras_sparse_evict(
        handles=handles,
        constants=tf.constant([float(each) for each in constants.values()], tf.float64),
        policy=eviction.kind,
        constant_names=list(constants),
        with_rows=with_rows,
    )
    return (num_evicted, keys, records) if with_rows else num_evicted
