import tensorflow as tf

from keras_sparse import native
from keras_sparse.optimizers.support.step_count import is_update
from keras_sparse.optimizers.support.step_count import run_if


def check_room(rows, grads, sum_over_ranks=None):
    """Refuses a step that would make more rows than a table may have.

    Args:
        rows: List of pairs of a variable with `max_rows` and the ids of its rows in the step.
        grads: List of all gradients of the step. They are there before it is refused: the exchanges
            that make them have ended on all ranks.
        sum_over_ranks: Function of a scalar int32 tensor that returns its sum over all ranks, which
            are then refused the step together. Defaults to `None`: there is one rank.

    Returns:
        The op that must have run before anything is updated; `None` where it has run.

    Raises:
        tf.errors.ResourceExhaustedError: There is no room. Nothing has changed.
    """
    refusal = native.check_room([variable for variable, _ in rows], [ids for _, ids in rows])
    num_refusals = tf.cast(tf.not_equal(refusal, ""), tf.int32)
    if sum_over_ranks is not None:
        num_refusals = sum_over_ranks(num_refusals)
    with tf.control_dependencies(grads):
        return native.refuse_step(refusal, num_refusals)


def room_checks(steps, check_over_ranks=None):
    """Returns what must have run before any variable is updated: a list of tensors and ops.

    The update of a table refuses a step without room by itself, and one with ids that a lookup on a
    GPU has not yet refused, but others would have been updated then.

    Args:
        steps: List of the `Step` of each optimizer of a model.
        check_over_ranks: Function that looks for room on all ranks, as `check_room` does on one.
            Defaults to `None`: there is one rank.
    """
    tables = [each for step in steps for each in step.tables]
    has_limit = any(each.variable.max_rows is not None for each in tables)
    # One optimizer has one update, which a table refuses for all.
    has_several = sum(bool(step.tables) for step in steps) > 1
    lookups = native.checked_lookups([each.variable for each in tables])
    if check_over_ranks is None and not has_limit and not has_several:
        return lookups
    rows = [each for step in steps for each in step.rows()]
    grads = gradients_of(steps)

    def check():
        checked = []
        if check_over_ranks is not None or has_limit:
            limited = [(variable, ids) for variable, ids in rows if variable.max_rows is not None]
            checked.append((check_over_ranks or check_room)(limited, grads))
        if has_several:
            # After the refusal that ranks agree on, and what `check_room` waits for.
            with tf.control_dependencies([*grads, *(each for each in checked if each is not None)]):
                variables, ids = zip(*rows, strict=True)
                checked.append(native.check_updates(list(variables), list(ids)))
        with tf.control_dependencies([each for each in checked if each is not None]):
            return tf.constant(True)

    return [*lookups, run_if(is_update(steps[0].optimizer), check, lambda: tf.constant(True))]


def gradients_of(steps):
    """Returns the tensors of all gradients of some steps.

    Args:
        steps: List of `Step` and `DenseStep`.
    """
    tensors = [each.values for step in steps for each in step.tables]
    for grad in (grad for step in steps for grad in step.grads):
        is_slices = isinstance(grad, tf.IndexedSlices)
        tensors += [grad.values, grad.indices] if is_slices else [grad]
    return tensors
