"""Loss scaling: whether a step is taken is one decision of all ranks."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.optimizers import Adagrad
from keras_sparse.optimizers import SGD
from ranked_training import assert_same_on_all_ranks
from ranked_training import RowPart


def scaled(optimizer):
    distributed = ksd.DistributedOptimizer(optimizer)
    return keras.optimizers.LossScaleOptimizer(distributed, initial_scale=4.0)


def eager(function):
    return function


def slices(values, shape):
    return tf.IndexedSlices(values * tf.ones((1, 2)), tf.constant([1], tf.int64), shape)


# Each pair of where, what and how.
@pytest.mark.parametrize(
    ("where", "wrong", "decorate"),
    [
        ("table", np.nan, tf.function),
        ("table", np.inf, eager),
        ("part", np.nan, eager),
        ("part", np.inf, tf.function),
        ("kernel", np.nan, tf.function),
        ("kernel", np.inf, eager),
    ],
)
def test_a_step_that_is_not_finite_on_one_rank_is_left_out_on_all(where, wrong, decorate):
    table = keras_sparse.EmbeddingVariable(8, 2, initializer="ones")
    part = RowPart("rows", np.ones((8, 2), "float32"))
    kernel = keras.Variable([1.0])
    optimizer = scaled(SGD(1.0, global_clipnorm=100.0))
    variables = [table, part.variable, kernel]

    @decorate
    def apply(of_table, of_part, of_kernel):
        of_tables = slices(of_table, (8, 2)), slices(of_part, part.variable.shape)
        grads = [*of_tables, of_kernel * tf.ones(1)]
        optimizer.apply(grads, variables)

    numbers = {"table": tf.constant(2.0), "part": tf.constant(2.0), "kernel": tf.constant(2.0)}
    is_last = ksd.rank() == ksd.size() - 1
    apply(*{**numbers, **({where: tf.constant(wrong)} if is_last else {})}.values())
    assert [variable.numpy().tolist() for variable in (table, kernel)] == [[[1, 1]] * 8, [1]]
    assert set(part.variable.numpy().ravel()) == {1.0}
    assert int(optimizer.iterations) == 0
    assert float(optimizer.dynamic_scale) == 2.0
    apply(*numbers.values())
    assert table.numpy()[1].tolist() == [0, 0]
    assert part.variable.numpy()[1].tolist() == [0, 0]
    assert kernel.numpy() == [0]
    assert int(optimizer.iterations) == 1


@pytest.mark.parametrize("dtype_policy", ["mixed_float16"], indirect=True)
def test_fit_under_mixed_float16_goes_on_after_an_overflow_on_one_rank(dtype_policy):
    layers = [keras_sparse.layers.Embedding(10, 4, combiner="sum"), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((2,), dtype="int64"), *layers])
    model.compile(ksd.DistributedOptimizer(Adagrad(0.1)), loss="mse")
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    ids = np.random.default_rng(ksd.rank()).integers(0, 10, (32, 2))
    targets = np.ones((32, 1), "float32")
    if ksd.rank() == 0:
        targets[8] = np.inf
    model.fit(ids, targets, batch_size=4, shuffle=False, verbose=0)
    assert int(model.optimizer.iterations) < 8
    assert int(model.optimizer.iterations) > 0
    values = [np.asarray(variable) for variable in model.trainable_variables]
    assert all(np.isfinite(value).all() for value in values)
    assert_same_on_all_ranks(values)
