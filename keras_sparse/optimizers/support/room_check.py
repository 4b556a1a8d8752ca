import tensorflow as tf

from keras_sparse import ops


def check_room(touched, grads, sum_over_ranks=None):
    """Refuses a step that would make more rows than a table may have.

    Args:
        touched: List of the `RowGradient` of a step whose tables have `max_rows`.
        grads: List of all gradients of the step. They are there before it is refused: the exchanges
            that make them have ended on all ranks.
        sum_over_ranks: Function of a scalar int32 tensor that returns its sum over all ranks, which
            are then refused the step together. Defaults to `None`: there is one rank.

    Returns:
        The op that must have run before anything is updated; `None` where it has run.

    Raises:
        tf.errors.ResourceExhaustedError: There is no room. Nothing has changed.
    """
    refusal = ops.check_room([rows.variable for rows in touched], [rows.ids for rows in touched])
    num_refusals = tf.cast(tf.not_equal(refusal, ""), tf.int32)
    if sum_over_ranks is not None:
        num_refusals = sum_over_ranks(num_refusals)
    made = [grad for grad in grads if grad is not None]
    with tf.control_dependencies(tf.nest.flatten(made, expand_composites=True)):
        return ops.refuse_step(refusal, num_refusals)
