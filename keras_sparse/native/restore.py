import tensorflow as tf

from keras_sparse.native import library as _native


def restore(variable, history):
    """Clears a table, which then goes on after the steps of a saved one.

    Records of that one can be imported with their steps, and are bit for bit what they were.

    Args:
        variable: `EmbeddingVariable` with the update rule of the saved table.
        history: `RuleHistory` of the saved table.

    Raises:
        tf.errors.InvalidArgumentError: It cannot be one of the rule.
    """
    return _native.lib.keras_sparse_restore(
        handles=[variable.native],
        step=tf.constant(history.step, tf.int64),
        first_step=tf.constant(history.first_step, tf.int64),
        table_step=tf.constant(history.table_step, tf.uint32),
        run_lengths=tf.convert_to_tensor(history.run_lengths, tf.int64),
        numbers=tf.convert_to_tensor(history.numbers, tf.float32),
    )
