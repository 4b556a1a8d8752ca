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
