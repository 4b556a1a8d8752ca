"""Rows of many tables in one tensor are those of one tensor a table, forward and back."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from joined_lookup_cases import adagrad
from joined_lookup_cases import assert_trains_the_same_bits
from joined_lookup_cases import BATCH
from joined_lookup_cases import DIMS
from joined_lookup_cases import inputs
from joined_lookup_cases import step
from joined_lookup_cases import tables
from keras_sparse import native
from optimizer_cases import CLASSES
from optimizer_cases import each_class
from pairwise import each_pair

WAYS = [{"is_joined": each} for each in (False, True)]


@each_pair(
    pooling=[(False, False), (True, False), (True, True)],
    is_dynamic=[False, True],
    in_function=[False, True],
    is_clipped=[False, True],
)
def test_trains_the_same_bits(pooling, is_dynamic, in_function, is_clipped):
    case = (adagrad(is_clipped), inputs(*pooling), is_dynamic, in_function)
    assert_trains_the_same_bits(*case, ways=WAYS)


@each_class
def test_each_optimizer_trains_the_same_bits(case):
    in_function = case in CLASSES[::2]
    assert_trains_the_same_bits(case.make, inputs(True, True), True, in_function, ways=WAYS)


def test_writes_and_reads_one_tensor_without_a_copy():
    variables, lists = tables(False), inputs(True, True)
    optimizer = keras_sparse.optimizers.SGD(0.1)
    optimizer.build(variables)
    factors = tf.ones((BATCH, sum(DIMS)))

    @tf.function
    def take_step():
        return step(optimizer, variables, lists, factors, True)

    made = take_step.get_concrete_function().graph.get_operations()
    types = [each.type for each in made]
    assert types.count("KerasSparseLookup") == types.count("KerasSparseApply") == 1
    of_rows = {each.type for each in made if any(t.shape[:1] == [BATCH] for t in each.outputs)}
    assert of_rows == {"Placeholder", "KerasSparseLookup", "Mul", "Tile", "Identity"}


@pytest.mark.parametrize("is_joined", [True, False])
def test_one_table_twice_gets_both_gradients(is_joined):
    table = keras_sparse.EmbeddingVariable(5, 2, "zeros")
    ids = [tf.constant([1, 2], tf.int64), tf.constant([2, 3], tf.int64)]
    with tf.GradientTape() as tape:
        rows = native.lookup([table, table], ids, joined=is_joined)
        rows = rows if is_joined else tf.concat(rows, axis=1)
        loss = tf.reduce_sum(rows * [1.0, 2.0, 3.0, 4.0])
    dense = tf.convert_to_tensor(tape.gradient(loss, table))
    np.testing.assert_array_equal(dense, [[0, 0], [1, 2], [4, 6], [3, 4], [0, 0]])


@pytest.mark.parametrize("is_joined", [True, False])
def test_a_batch_may_be_empty(is_joined):
    rows = native.lookup(tables(True), [tf.zeros((0,), tf.int64)] * 4, joined=is_joined)
    assert (rows if is_joined else rows[3]).shape == (0, sum(DIMS) if is_joined else 16)


def test_tables_must_have_as_many_rows():
    ids = [tf.range(3, dtype=tf.int64), tf.range(2, dtype=tf.int64)]
    with pytest.raises(tf.errors.InvalidArgumentError, match="3 of input 0, 2 of input 1"):
        native.lookup(tables(False)[:2], ids, joined=True)
    with pytest.raises(ValueError, match="must not be empty"):
        native.lookup([], [], joined=True)


def pooling_matrix(ids, row_splits, weights, combiner):
    """What each row of a table of 20 counts in each bag, in float64."""
    matrix = np.zeros((BATCH, 20))
    splits = np.arange(BATCH + 1) if row_splits is None else np.array(row_splits)
    for bag, (begin, end) in enumerate(itertools.pairwise(splits)):
        w = np.ones(end - begin) if weights is None else np.array(weights, float)[begin:end]
        divisor = {"mean": w.sum(), "sqrtn": np.sqrt((w**2).sum())}.get(combiner, 1.0)
        np.add.at(matrix[bag], np.array(ids)[begin:end], w / (divisor or 1.0))
    return matrix


FACTORS = np.random.default_rng(5).normal(size=(BATCH, sum(DIMS)))
PICKED = [2, 5, 2]  # a bag twice, and most of them not

# Losses whose gradients come in other forms than a tensor of their own, and what these are.
FORMS = {
    "broadcast": (tf.reduce_sum, lambda width: np.ones((BATCH, width))),
    "sparse": (
        lambda rows: tf.reduce_sum(tf.gather(rows, PICKED)),
        lambda width: np.bincount(PICKED, minlength=BATCH)[:, None] * np.ones((1, width)),
    ),
    "transposed": (
        lambda rows: tf.reduce_sum(tf.transpose(rows) * FACTORS[:, : rows.shape[1]].T),
        lambda width: FACTORS[:, :width],
    ),
    "of_some_columns": (
        lambda rows: tf.reduce_sum(rows[:, 1:3] * FACTORS[:, :2]),
        lambda width: np.pad(FACTORS[:, :2], ((0, 0), (1, width - 3))),
    ),
}


@each_pair(form=FORMS, pools=[False, True], num_tables=[1, 4], in_function=[False, True])
def test_rows_and_gradients_are_those_of_numpy(form, pools, num_tables, in_function):
    variables = tables(False)[:num_tables]
    lists = [each[:num_tables] for each in inputs(pools, is_weighted=pools)]
    loss_of, gradient_of = FORMS[form]

    def take_gradients():
        with tf.GradientTape() as tape:
            rows = native.lookup(variables, *lists, joined=True)
            loss = loss_of(rows)
        return rows, [tf.convert_to_tensor(each) for each in tape.gradient(loss, variables)]

    rows, grads = (tf.function(take_gradients) if in_function else take_gradients)()
    columns = np.cumsum([0, *DIMS])
    upstream = gradient_of(columns[num_tables])
    for i, (variable, grad) in enumerate(zip(variables, grads, strict=True)):
        pooling = pooling_matrix(*(each[i] for each in lists))
        own = slice(columns[i], columns[i + 1])
        table = np.array(variable, float)
        np.testing.assert_allclose(rows[:, own], pooling @ table, atol=1e-5)
        np.testing.assert_allclose(grad, pooling.T @ upstream[:, own], atol=1e-5)


# Rows that a lookup writes in float16 or bfloat16 are what casts make of them, forth and back.
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
