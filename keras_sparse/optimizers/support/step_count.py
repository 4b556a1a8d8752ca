import tensorflow as tf


def optimizers_in(optimizer):
    """Returns the optimizers that have a step among them: those of a `MultiOptimizer`, or itself.

    Args:
        optimizer: `keras.optimizers.Optimizer`, in a `LossScaleOptimizer` or others too.
    """
    while hasattr(optimizer, "inner_optimizer"):
        optimizer = optimizer.inner_optimizer
    return list(getattr(optimizer, "optimizers", [optimizer]))


def set_iterations(optimizer, iterations):
    """Lets an optimizer, and all that it has, go on from a number of steps.

    Args:
        optimizer: As for `optimizers_in`.
        iterations: Integer, as `optimizer.iterations` is.
    """
    for each in _all_that_count(optimizer):
        each._iterations.assign(iterations)


def step_without_gradients(optimizer):
    """Counts a step in which an optimizer has no gradient, and takes part in that of other ranks.

    Keras leaves such a step out; the norms of tables on other ranks wait for this one.

    Args:
        optimizer: `keras.optimizers.Optimizer`, or a `MultiOptimizer`.
    """
    for each in _all_that_count(optimizer):
        clip = getattr(each, "clip_over_ranks", None)
        if clip is not None:
            clip([tf.zeros(1)], [None])
        each._iterations.assign_add(1)


def _all_that_count(optimizer):
    """The optimizers inside, and the `MultiOptimizer` that has them."""
    while hasattr(optimizer, "inner_optimizer"):
        optimizer = optimizer.inner_optimizer
    return [optimizer, *getattr(optimizer, "optimizers", [])]
