import tensorflow as tf

from keras_sparse.ops import _native
from keras_sparse.ops.check_tables import handles_of


def set_rule(variables, rule, constants, weight_decays):
    """Gives tables an update rule. Rows stay, slots get their initial values, steps begin anew.

    Args:
        variables: List of `EmbeddingVariable`.
        rule: String. Name of a native rule.
        constants: Dict of floats: the rule's hyperparameters by name.
        weight_decays: List of floats, one a table: how much of a row a step takes away, times the
            learning rate.

    Returns:
        `(generations, record_floats, slot_names)`: a list of integers, how often each table has
        been given a rule; a list of integers, the width of each table's records; a list of strings,
        what the rule keeps beside each row, in the order of the record.
    """
    with tf.init_scope():
        outputs = _native.lib.keras_sparse_set_rule(
            handles=handles_of(variables),
            constants=tf.constant([float(c) for c in constants.values()], tf.float64),
            weight_decays=tf.constant([float(decay) for decay in weight_decays], tf.float64),
            rule=rule,
            constant_names=list(constants),
        )
        return (
            outputs.generations.numpy().tolist(),
            outputs.record_floats.numpy().tolist(),
            [name.decode() for name in outputs.slot_names.numpy().tolist()],
        )
