import tensorflow as tf

from keras_sparse.ops import _native


def set_rule(variables, rule, slot_initial_values):
    """Gives the tables an update rule, and their rows fresh slots for it.

    Args:
        variables: List of `EmbeddingVariable`.
        rule: String. Name of a native rule: `"sgd"`, `"adagrad"` or `"lazy_adam"`.
        slot_initial_values: List of floats, one a slot of the rule. What each slot starts with, in
            rows that are there and in rows to come.

    Returns:
        List of integers: the generation of each table's rule, counted from 1. An update names the
        generation that it is for.
    """
    with tf.init_scope():
        generations = _native.lib.keras_sparse_set_rule(
            handles=[variable.native for variable in variables],
            slot_initial_values=tf.constant(
                slot_initial_values, tf.float32, (len(slot_initial_values),)
            ),
            rule=rule,
        )
    return generations.numpy().tolist()
