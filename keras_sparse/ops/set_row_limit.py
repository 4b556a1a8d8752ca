import tensorflow as tf

from keras_sparse.ops import _native
from keras_sparse.ops.check_tables import handles_of


def set_row_limit(variables, max_rows, eviction=None):
    """Limits the rows of dynamic tables. An update that would make more is an error.

    Args:
        variables: List of `EmbeddingVariable`.
        max_rows: Integer. The most rows that each may have, in all tiers.
        eviction: A policy of `keras_sparse.storage`, by which rows go before such an update; none
            of those that it is for. Defaults to `None`: no row goes.
    """
    constants = {} if eviction is None else eviction.constants()
    with tf.init_scope():
        _native.lib.keras_sparse_set_row_limit(
            handles=handles_of(variables),
            constants=tf.constant([float(each) for each in constants.values()], tf.float64),
            max_rows=max_rows,
            policy="" if eviction is None else eviction.kind,
            constant_names=list(constants),
        )
