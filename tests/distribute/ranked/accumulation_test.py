"""Gradients accumulated over steps on ranks, beside one rank that has all tables."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.optimizers import Adagrad
from keras_sparse.optimizers import MultiOptimizer
from keras_sparse.tables.table_part import TablePart
from ranked_training import assert_close

STEPS, DIM, ROWS = 2, 2, 6
CLIP = {"global_clipnorm": 0.5, "gradient_accumulation_steps": STEPS}


def one():
    return Adagrad(0.5, **CLIP)


def each():
    return MultiOptimizer({"keys": one(), "others": one()})


def spread(optimizer):
    """The last rank has all of the keys, the other ones have nothing at all."""
    is_last = ksd.rank() == ksd.size() - 1
    part = TablePart("keys", None, DIM, 0, DIM) if ksd.size() > 1 else None
    options = {"initializer": "ones", "max_rows": ROWS, "name": "keys", "part": part}
    tables = [keras_sparse.EmbeddingVariable(None, DIM, **options)] if is_last else []
    return ksd.DistributedOptimizer(optimizer), tables


# "others" of several must have variables.
@pytest.mark.parametrize(
    ("make", "with_copies", "decorate"),
    [
        (one, True, lambda step: step),
        (one, False, tf.function),
        (each, True, tf.function),
    ],
)
def test_ranks_do_what_one_does(make, with_copies, decorate):
    optimizer, variables = spread(make())
    whole = [keras_sparse.EmbeddingVariable(None, DIM, initializer="ones", name="keys")]
    for ours in (variables, whole) if with_copies else ():
        ours.append(keras_sparse.EmbeddingVariable(ROWS, DIM, initializer="ones", name="copy"))
        ours.append(keras.Variable(np.ones(DIM, "float32"), name="kernel"))
    optimizer.build(variables)
    reference = make()
    rng = np.random.default_rng(0)

    def gradients(ids, values, of):
        shape = (ROWS, DIM)
        slices = tf.IndexedSlices(values, ids, tf.constant(shape, tf.int64))
        return [slices if hasattr(each, "native") else values[0] for each in of]

    @decorate
    def step(ids, values):
        optimizer.apply(gradients(ids, values, variables), variables)

    for number in range(2 * STEPS):
        ids = tf.constant(rng.integers(0, ROWS, 3))
        values = tf.constant(rng.normal(size=(3, DIM)).astype("float32"))
        step(ids, values)
        reference.apply(gradients(ids, values, whole), whole)
        assert int(optimizer.iterations) == (number + 1) // STEPS
    for ours in variables:
        theirs = next(each for each in whole if each.name == ours.name)
        assert_close([value(ours)], [value(theirs)])


def value(variable):
    if not hasattr(variable, "native"):
        return variable.numpy()
    ids = tf.range(ROWS, dtype=tf.int64)
    return keras_sparse.ops.lookup([variable], [ids])[0].numpy()
