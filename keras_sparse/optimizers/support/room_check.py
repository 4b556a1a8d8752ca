import tensorflow as tf

from keras_sparse import native
from keras_sparse.optimizers.support.step_count import is_update
from keras_sparse.optimizers.support.step_count import run_if


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
    refusal = native.check_room([rows.variable for rows in touched], [rows.ids for rows in touched])
    num_refusals = tf.cast(tf.not_equal(refusal, ""), tf.int32)
    if sum_over_ranks is not None:
        num_refusals = sum_over_ranks(num_refusals)
    made = [grad for grad in grads if grad is not None]
    with tf.control_dependencies(tf.nest.flatten(made, expand_composites=True)):
        return native.refuse_step(refusal, num_refusals)


def room_checks(optimizer, limited, grads, touched=()):
    """Returns what must have run before any variable of a step is updated: a list of tensors.

    The update refuses a step without room by itself, but others would have been updated then.

    Args:
        optimizer: `SparseOptimizer` or `MultiOptimizer`. Where its `check_room_on_all_ranks` is
            set, that looks for room as `check_room` does on one rank.
        limited: List of `RowGradient`: all rows that would change of tables that have `max_rows`.
        grads: List of all gradients of the step.
        touched: List of `RowGradient`: all rows that would change, where a step is several updates.
            Their tables are asked whether they refuse theirs. Defaults to none.
    """
    on_all_ranks = optimizer.check_room_on_all_ranks
    looks_for_room = on_all_ranks is not None or limited
    if not looks_for_room and not touched:
        return []

    def check():
        checked = []
        if looks_for_room:
            checked.append((on_all_ranks or check_room)(limited, grads))
        if touched:
            tables = [rows.variable for rows in touched]
            # After the refusal that ranks agree on, and what `check_room` waits for.
            made = tf.nest.flatten([g for g in grads if g is not None], expand_composites=True)
            with tf.control_dependencies([*made, *(each for each in checked if each is not None)]):
                checked.append(native.check_updates(tables, [rows.ids for rows in touched]))
        with tf.control_dependencies([each for each in checked if each is not None]):
            return tf.constant(True)

    return [run_if(is_update(optimizer), check, lambda: tf.constant(True))]
