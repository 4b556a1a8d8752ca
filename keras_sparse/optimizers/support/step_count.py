import tensorflow as tf


def optimizers_in(optimizer):
    """Returns the optimizers that have a step among them: those of a `MultiOptimizer`, or itself.

    Args:
        optimizer: `keras.optimizers.Optimizer`, in a `LossScaleOptimizer` or others too.
    """
    while hasattr(optimizer, "inner_optimizer"):
        optimizer = optimizer.inner_optimizer
    return list(getattr(optimizer, "optimizers", [optimizer]))


def is_update(optimizer):
    """Returns whether a step changes variables: `True`, or a tensor if gradients are accumulated.

    Args:
        optimizer: `keras.optimizers.Optimizer`, or a `MultiOptimizer`, whose optimizers accumulate
            as many steps.
    """
    (first, *_) = optimizers_in(optimizer)
    steps = first.gradient_accumulation_steps
    return tf.equal((first._iterations.value + 1) % steps, 0) if steps else True


def accumulation(optimizer):
    """Returns how many steps an update has, and how many steps were counted, outside of a graph.

    Args:
        optimizer: As for `optimizers_in`.
    """
    (first, *_) = optimizers_in(optimizer)
    return first.gradient_accumulation_steps or 1, int(first._iterations)


def run_if(condition, then, otherwise):
    """Does as `tf.cond`, which for a Python boolean makes no branch."""
    if condition is True:
        return then()
    return tf.cond(condition, then, otherwise)


def set_iterations(optimizer, iterations):
    """Lets an optimizer, and all that it has, go on from a number of steps.

    Args:
        optimizer: As for `optimizers_in`.
        iterations: Integer, as `optimizer.iterations` is.
    """
    if int(optimizer.iterations) == iterations:
        return  # also in the middle of an accumulation
    steps, _ = accumulation(optimizer)
    for each in all_that_count(optimizer):
        each._iterations.assign(iterations * steps)


def all_that_count(optimizer):
    """The optimizers inside, and the `MultiOptimizer` that has them."""
    while hasattr(optimizer, "inner_optimizer"):
        optimizer = optimizer.inner_optimizer
    return [optimizer, *getattr(optimizer, "optimizers", [])]
