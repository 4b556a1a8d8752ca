"""Rows of many tables in one tensor are those of one tensor a table, forward and back."""

import functools
import itertools

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
from optimizer_cases import each_class


def step(optimizer, variables, lists, factors, is_joined):
    """The output of a step, and the gradient of the weights."""
    weights = [each for each in lists[2] if each is not None]
    with tf.GradientTape() as tape:
        tape.watch(weights)
        rows = ops.lookup(variables, *lists, joined=is_joined)
        rows = rows if is_joined else tf.concat(rows, axis=1)
        loss = tf.reduce_sum(rows * factors)
    grads = tape.gradient(loss, [*variables, *weights])
    optimizer.apply(grads[: len(variables)], variables)
    return rows, grads[len(variables) :]


def train(make_optimizer, lists, is_dynamic, in_function, is_joined):
    """Returns outputs, gradients of weights and tables of some steps."""
    factors = tf.constant(np.random.default_rng(4).normal(size=(BATCH, sum(DIMS))), tf.float32)
    variables, optimizer = tables(is_dynamic), make_optimizer()
    optimizer.build(variables)
    take_step = functools.partial(step, optimizer, variables, lists, factors, is_joined)
    take_step = tf.function(take_step) if in_function else take_step
    steps = [tf.nest.map_structure(np.array, take_step()) for _ in range(3)]
    return steps, [checks.table_content(each) for each in variables]


def assert_trains_the_same_bits(*case):
    (separate, their_tables), (joined, our_tables) = (train(*case, each) for each in (False, True))
    tf.nest.map_structure(np.testing.assert_array_equal, separate, joined)
    assert our_tables == their_tables


@pytest.mark.parametrize("is_clipped", [False, True])
@pytest.mark.parametrize("in_function", [False, True])
@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize(("pools", "is_weighted"), [(False, False), (True, False), (True, True)])
def test_trains_the_same_bits(pools, is_weighted, is_dynamic, in_function, is_clipped):
    clipping = {"global_clipnorm": 0.1} if is_clipped else {}
    make_optimizer = functools.partial(keras_sparse.optimizers.Adagrad, 0.1, **clipping)
    lists = inputs(pools, is_weighted)
    assert_trains_the_same_bits(make_optimizer, lists, is_dynamic, in_function)


@each_class
def test_each_optimizer_trains_the_same_bits(case):
    assert_trains_the_same_bits(case.make, inputs(True, True), True, True)


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


def test_slices_of_a_table_are_its_own():
    """Where TensorFlow reads `values`, as an optimizer of Keras does."""
    variables, lists = tables(False), inputs(True, True)
    grads = []
    for is_joined in (False, True):
        with tf.GradientTape() as tape:
            rows = ops.lookup(variables, *lists, joined=is_joined)
            rows = rows if is_joined else tf.concat(rows, axis=1)
            loss = tf.reduce_sum(rows**2)
        grads.append([tf.convert_to_tensor(each) for each in tape.gradient(loss, variables)])
    tf.nest.map_structure(np.testing.assert_array_equal, *grads)


def test_one_table_twice_gets_both_gradients():
    table = keras_sparse.EmbeddingVariable(5, 2, "zeros")
    ids = [tf.constant([1, 2], tf.int64), tf.constant([2, 3], tf.int64)]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(ops.lookup([table, table], ids, joined=True) * [1.0, 2.0, 3.0, 4.0])
    dense = tf.convert_to_tensor(tape.gradient(loss, table))
    np.testing.assert_array_equal(dense, [[0, 0], [1, 2], [4, 6], [3, 4], [0, 0]])


@pytest.mark.parametrize("is_joined", [True, False])
def test_a_batch_may_be_empty(is_joined):
    rows = ops.lookup(tables(True), [tf.zeros((0,), tf.int64)] * 4, joined=is_joined)
    assert (rows if is_joined else rows[3]).shape == (0, sum(DIMS) if is_joined else 16)


def test_tables_must_have_as_many_rows():
    ids = [tf.range(3, dtype=tf.int64), tf.range(2, dtype=tf.int64)]
    with pytest.raises(tf.errors.InvalidArgumentError, match="3 of input 0, 2 of input 1"):
        ops.lookup(tables(False)[:2], ids, joined=True)
    with pytest.raises(ValueError, match="must not be empty"):
        ops.lookup([], [], joined=True)


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


@pytest.mark.parametrize("in_function", [False, True])
@pytest.mark.parametrize("num_tables", [1, 4])
@pytest.mark.parametrize(("pools", "is_weighted"), [(False, False), (True, True)])
@pytest.mark.parametrize("form", FORMS)
def test_rows_and_gradients_are_those_of_numpy(form, pools, is_weighted, num_tables, in_function):
    variables = tables(False)[:num_tables]
    lists = [each[:num_tables] for each in inputs(pools, is_weighted)]
    loss_of, gradient_of = FORMS[form]

    def take_gradients():
        with tf.GradientTape() as tape:
            rows = ops.lookup(variables, *lists, joined=True)
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
