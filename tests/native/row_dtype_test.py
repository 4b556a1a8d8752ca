"""Rows that a lookup writes in float16 or bfloat16 are what casts make of them, forth and back."""

import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from joined_lookup_cases import adagrad
from joined_lookup_cases import assert_trains_the_same_bits
from joined_lookup_cases import inputs
from keras_sparse import native
from pairwise import each_pair

DTYPES = ["float16", "bfloat16"]


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
    assert_trains_the_same_bits(
        *(adagrad(is_clipped), inputs(*pooling), pooling[0], in_function),
        ways=[{"is_joined": is_joined, "dtype": dtype, "is_cast": each} for each in (True, False)],
        scale=scale,
    )


@each_pair(dtype=DTYPES, combiner=[None, "sum"])
def test_slices_are_float32(dtype, combiner):
    table = keras_sparse.EmbeddingVariable(9, 2, "ones")
    ids, splits = tf.constant([3, 3, 5], tf.int64), tf.range(4, dtype=tf.int64)
    pooling = {} if combiner is None else {"row_splits": [splits], "combiners": [combiner]}
    with tf.GradientTape() as tape:
        (rows,) = native.lookup([table], [ids], dtype=getattr(tf, dtype), **pooling)
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
            (rows,) = native.lookup([table], [tf.constant([3], tf.int64)], dtype=dtype)
            loss = tf.reduce_sum(tf.cast(rows, tf.float32) ** 3)
        penalty = tf.reduce_sum(inner.gradient(loss, table).values)
    np.testing.assert_array_equal(outer.gradient(penalty, table).values, [[6, 6]])


@each_pair(dtype=DTYPES, is_joined=[False, True])
def test_a_loss_scale_keeps_small_gradients(dtype, is_joined):
    """In float16 a gradient of 1e-8 is zero, and 1024 times as much is not."""
    table = keras_sparse.EmbeddingVariable(9, 4, "zeros")
    optimizer = keras_sparse.optimizers.SGD(1.0, loss_scale_factor=1024.0)
    optimizer.build([table])
    with tf.GradientTape() as tape:
        rows = native.lookup([table], [tf.constant([3], tf.int64)], joined=is_joined, dtype=dtype)
        rows = tf.cast(rows if is_joined else rows[0], tf.float32)
        loss = optimizer.scale_loss(tf.reduce_sum(rows) * 1e-8)
    optimizer.apply(tape.gradient(loss, [table]), [table])
    np.testing.assert_allclose(np.array(table)[3], -1e-8, rtol=0.01)


def test_beyond_the_range_of_float16_rows_are_infinite():
    table = keras_sparse.EmbeddingVariable(2, 9, "zeros")
    table.assign(np.full((2, 9), -7e4, "float32"))
    ids = [tf.constant([1], tf.int64)]
    assert np.all(np.array(native.lookup([table], ids, dtype="float16")[0]) == -np.inf)
    assert np.all(np.isfinite(tf.cast(native.lookup([table], ids, dtype="bfloat16")[0], "float32")))


def test_other_dtypes_are_an_error():
    table = keras_sparse.EmbeddingVariable(2, 9, "zeros")
    with pytest.raises(ValueError, match=r"`dtype` must be one of .*float64"):
        native.lookup([table], [tf.constant([1], tf.int64)], dtype="float64")
