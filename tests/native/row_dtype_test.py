"""Rows that a lookup writes in float16 or bfloat16 are what casts make of them, forth and back."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
from joined_lookup_cases import BATCH
from joined_lookup_cases import DIMS
from joined_lookup_cases import inputs
from joined_lookup_cases import tables
from keras_sparse import ops
from pairwise import each_pair

DTYPES = ["float16", "bfloat16"]


def step(optimizer, variables, lists, factors, dtype, is_cast, is_joined):
    """The output of a step, and the gradient of the weights."""
    weights = [each for each in lists[2] if each is not None]
    with tf.GradientTape() as tape:
        tape.watch(weights)
        rows = ops.lookup(
            variables, *lists, joined=is_joined, dtype="float32" if is_cast else dtype
        )
        rows = rows if is_joined else tf.concat(rows, axis=1)
        rows = tf.cast(rows, dtype)
        loss = tf.reduce_sum(tf.cast(rows * factors, tf.float32))
    grads = tape.gradient(loss, [*variables, *weights])
    optimizer.apply(grads[: len(variables)], variables)
    return tf.cast(rows, tf.float32), grads[len(variables) :]


def train(make_optimizer, lists, is_dynamic, in_function, scale, *way):
    """Returns outputs, gradients of weights and tables of some steps; gradients are of `scale`."""
    factors = scale * np.random.default_rng(4).normal(size=(BATCH, sum(DIMS)))
    variables, optimizer = tables(is_dynamic), make_optimizer()
    optimizer.build(variables)
    factors = tf.constant(factors, way[0])
    take_step = functools.partial(step, optimizer, variables, lists, factors, *way)
    take_step = tf.function(take_step) if in_function else take_step
    steps = [tf.nest.map_structure(np.array, take_step()) for _ in range(3)]
    return steps, [checks.table_content(each) for each in variables]


@each_pair(
    pooling=[(False, False), (True, False), (True, True)],
    is_joined=[False, True],
    dtype=DTYPES,
    in_function=[False, True],
    # The smallest normal float16 is 6e-5.
    gradients=[(False, 1.0), (True, 1.0), (False, 1e-5)],
)
def test_trains_the_same_bits_as_casts_do(pooling, is_joined, dtype, in_function, gradients):
    is_clipped, scale = gradients
    clipping = {"global_clipnorm": 0.1} if is_clipped else {}
    make_optimizer = functools.partial(keras_sparse.optimizers.Adagrad, 0.1, **clipping)
    case = (make_optimizer, inputs(*pooling), pooling[0], in_function, scale, dtype)
    ends = [train(*case, is_cast, is_joined) for is_cast in (True, False)]
    tf.nest.map_structure(np.testing.assert_array_equal, ends[0][0], ends[1][0])
    assert ends[0][1] == ends[1][1]


@pytest.mark.parametrize("combiner", [None, "sum"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_slices_are_float32(dtype, combiner):
    table = keras_sparse.EmbeddingVariable(9, 2, "ones")
    ids, splits = tf.constant([3, 3, 5], tf.int64), tf.range(4, dtype=tf.int64)
    pooling = {} if combiner is None else {"row_splits": [splits], "combiners": [combiner]}
    with tf.GradientTape() as tape:
        (rows,) = ops.lookup([table], [ids], dtype=getattr(tf, dtype), **pooling)
        loss = tf.reduce_sum(rows * tf.constant([[1.0], [2.0**-9], [4.0]], dtype))
    slices = tape.gradient(loss, table)
    assert slices.dtype == tf.float32
    dense = np.zeros((9, 2))
    dense[3], dense[5] = 1 + 2.0**-9, 4  # in halves the first would be 1
    np.testing.assert_array_equal(tf.convert_to_tensor(slices), dense)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_alone_have_second_derivatives(dtype):
    table = keras_sparse.EmbeddingVariable(9, 2, "ones")
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            (rows,) = ops.lookup([table], [tf.constant([3], tf.int64)], dtype=dtype)
            loss = tf.reduce_sum(tf.cast(rows, tf.float32) ** 3)
        penalty = tf.reduce_sum(inner.gradient(loss, table).values)
    np.testing.assert_array_equal(outer.gradient(penalty, table).values, [[6, 6]])


@pytest.mark.parametrize("is_joined", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_loss_scale_keeps_small_gradients(dtype, is_joined):
    """In float16 a gradient of 1e-8 is zero, and 1024 times as much is not."""
    table = keras_sparse.EmbeddingVariable(9, 4, "zeros")
    optimizer = keras_sparse.optimizers.SGD(1.0, loss_scale_factor=1024.0)
    optimizer.build([table])
    with tf.GradientTape() as tape:
        rows = ops.lookup([table], [tf.constant([3], tf.int64)], joined=is_joined, dtype=dtype)
        rows = tf.cast(rows if is_joined else rows[0], tf.float32)
        loss = optimizer.scale_loss(tf.reduce_sum(rows) * 1e-8)
    optimizer.apply(tape.gradient(loss, [table]), [table])
    np.testing.assert_allclose(np.array(table)[3], -1e-8, rtol=0.01)


def test_beyond_the_range_of_float16_rows_are_infinite():
    table = keras_sparse.EmbeddingVariable(2, 9, "zeros")
    table.assign(np.full((2, 9), -7e4, "float32"))
    ids = [tf.constant([1], tf.int64)]
    assert np.all(np.array(ops.lookup([table], ids, dtype="float16")[0]) == -np.inf)
    assert np.all(np.isfinite(tf.cast(ops.lookup([table], ids, dtype="bfloat16")[0], "float32")))


def test_other_dtypes_are_an_error():
    table = keras_sparse.EmbeddingVariable(2, 9, "zeros")
    with pytest.raises(ValueError, match=r"`dtype` must be one of .*float64"):
        ops.lookup([table], [tf.constant([1], tf.int64)], dtype="float64")
