import tensorflow as tf

from keras_sparse.ops import _native


def evict_rows(variables, eviction):
    """Drops the rows of dynamic tables, in all their tiers, that a policy lets go.

    Args:
        variables: List of `EmbeddingVariable`.
        eviction: A policy of `keras_sparse.storage`. One that asks for ages must be that of the
            tables, which otherwise do not remember them.

    Returns:
        int64 tensor of shape `(num_tables,)`: how many rows went.
    """
    constants = eviction.constants()
    return _native.lib.keras_sparse_evict(
        handles=[variable.native for variable in variables],
        constants=tf.constant([float(each) for each in constants.values()], tf.float64),
        policy=eviction.kind,
        constant_names=list(constants),
    )
