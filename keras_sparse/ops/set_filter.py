import tensorflow as tf

from keras_sparse.initial_rows import wrapped_seed
from keras_sparse.ops import _native
from keras_sparse.ops.check_tables import handles_of


def set_filter(variables, admission):
    """Gives dynamic tables an admission filter. What an earlier one remembered is forgotten.

    Args:
        variables: List of `EmbeddingVariable`.
        admission: A filter of `keras_sparse.storage`. Without a seed of its own it draws by that of
            each table's initial rows.
    """
    own = None if admission.seed is None else wrapped_seed(admission.seed)
    constants = admission.constants()
    default = admission.default_value_no_permission
    reads_initial_rows = default == "initializer"
    with tf.init_scope():
        _native.lib.keras_sparse_set_filter(
            handles=handles_of(variables),
            constants=tf.constant([float(each) for each in constants.values()], tf.float64),
            filter=admission.kind,
            constant_names=list(constants),
            seeds=[each.initial_rows.seed if own is None else own for each in variables],
            reads_initial_rows=reads_initial_rows,
            default_value=0.0 if reads_initial_rows else default,
        )
