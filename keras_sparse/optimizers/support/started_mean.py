"""The gradients that have come since the last update, where several steps make one."""

import contextlib
import warnings

import tensorflow as tf

from keras_sparse.optimizers.support.step_count import accumulation
from keras_sparse.optimizers.support.step_count import all_that_count
from keras_sparse.optimizers.support.step_count import optimizers_in


def forget_started_mean(optimizer, tables=()):
    """Brings an optimizer back to its last update: what came since is dropped.

    Args:
        optimizer: As for `optimizers_in`.
        tables: List of `LocalTable` whose accumulated gradients are dropped too.
    """
    steps, count = accumulation(optimizer)
    for each in all_that_count(optimizer):
        each._iterations.assign(count - count % steps)
    for sums in _sums_of(optimizer):
        sums.assign(tf.zeros_like(sums))
    for variable in tables:
        variable.forget_accumulated()


@contextlib.contextmanager
def without_started_mean(optimizer, tables):
    """While this is entered, an optimizer is as its last update has left it. Warns of that.

    Args:
        optimizer: As for `optimizers_in`, or `None`. The tables name the optimizer of a training
            loop that is not Keras' own.
        tables: List of `LocalTable`.
    """
    rows = [each for each in (variable.accumulated for variable in tables) if each is not None]
    optimizers = _optimizers_of(optimizer, tables)
    steps, count = next(
        (each for each in map(accumulation, optimizers) if each[1] % each[0]), (1, 0)
    )
    if count % steps == 0 and not any(map(len, rows)):
        yield
        return
    warnings.warn(
        "Keras' files must be saved between two updates to have all gradients. The file has the "
        "state of the last update, without the gradients since then. Save a checkpoint, which has "
        f"them, or after an update. Received: {count % steps} of {steps} steps accumulated",
        stacklevel=5,
    )
    kept = [v for each in rows for v in (each.ids, each.values)]
    for each in optimizers:
        kept += [counting._iterations.value for counting in all_that_count(each)]
        kept += _sums_of(each)
    before = [tf.identity(each) for each in kept]
    for each in optimizers:
        forget_started_mean(each, tables)
    try:
        yield
    finally:
        for each, value in zip(kept, before, strict=True):
            each.assign(value)


def _optimizers_of(optimizer, tables):
    """Returns an optimizer, if there is one, and the others that train some of the tables."""
    found = [] if optimizer is None else [optimizer]
    known = {id(each) for each in found for each in all_that_count(each)}
    for owner in (v.rule_owner() for v in tables if v.rule_owner is not None):
        if owner is not None and id(owner) not in known:
            known.add(id(owner))
            found.append(owner)
    return found


def _sums_of(optimizer):
    """The `tf.Variable` of each dense variable's accumulated gradient."""
    for each in optimizers_in(optimizer):
        for sums in getattr(each, "_accumulated_gradients", ()):
            if sums is not None:
                yield sums.value
