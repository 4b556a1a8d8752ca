"""Lookups in four tables, for the tests of the tensors that their rows are written into."""

import functools

import numpy as np
import tensorflow as tf

import checks
import keras_sparse
from keras_sparse import native

BATCH = 7
DIMS = (3, 8, 1, 16)


def inputs(pools, is_weighted):
    """Ids, row_splits, weights and combiners of four tables."""
    rng = np.random.default_rng(3)
    ids, row_splits, weights, combiners = [], [], [], []
    for combiner in ("sum", "mean", "sqrtn", "sum"):
        counts = rng.integers(0, 4, BATCH) if pools else np.ones(BATCH, int)
        ids.append(tf.constant(rng.integers(0, 20, counts.sum())))
        row_splits.append(tf.constant(np.cumsum([0, *counts])) if pools else None)
        weights.append(tf.constant(rng.random(counts.sum()), tf.float32) if is_weighted else None)
        combiners.append(combiner if pools else None)
    return ids, row_splits, weights, combiners


def tables(is_dynamic):
    return [
        keras_sparse.EmbeddingVariable(None if is_dynamic else 20, dim, seed=dim, name=f"t{dim}")
        for dim in DIMS
    ]


def adagrad(is_clipped):
    clipping = {"global_clipnorm": 0.1} if is_clipped else {}
    return functools.partial(keras_sparse.optimizers.Adagrad, 0.1, **clipping)


def step(optimizer, variables, lists, factors, is_joined, dtype="float32", is_cast=False):
    """The output of a step, and the gradient of the weights."""
    weights = [each for each in lists[2] if each is not None]
    with tf.GradientTape() as tape:
        tape.watch(weights)
        rows = native.lookup(
            variables, *lists, joined=is_joined, dtype="float32" if is_cast else dtype
        )
        rows = rows if is_joined else tf.concat(rows, axis=1)
        rows = tf.cast(rows, dtype)
        loss = tf.reduce_sum(tf.cast(rows * factors, tf.float32))
    grads = tape.gradient(loss, [*variables, *weights])
    optimizer.apply(grads[: len(variables)], variables)
    return tf.cast(rows, tf.float32), grads[len(variables) :]


def train(make_optimizer, lists, is_dynamic, in_function, way, scale=1.0):
    """Returns outputs, gradients of weights and tables of some steps; gradients are of `scale`."""
    factors = scale * np.random.default_rng(4).normal(size=(BATCH, sum(DIMS)))
    factors = tf.constant(factors, way.get("dtype", "float32"))
    variables, optimizer = tables(is_dynamic), make_optimizer()
    optimizer.build(variables)
    take_step = functools.partial(step, optimizer, variables, lists, factors, **way)
    take_step = tf.function(take_step) if in_function else take_step
    steps = [tf.nest.map_structure(np.array, take_step()) for _ in range(3)]
    return steps, [checks.table_content(each) for each in variables]


def assert_trains_the_same_bits(*case, ways, **options):
    """Raises unless two ways, which are arguments of `step`, end alike."""
    ends = [train(*case, way, **options) for way in ways]
    tf.nest.map_structure(np.testing.assert_array_equal, ends[0][0], ends[1][0])
    assert ends[0][1] == ends[1][1]
