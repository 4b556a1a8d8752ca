"""One table and several optimizers, and one model and several optimizers."""

import gc

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse import ops
from keras_sparse import optimizers
from keras_sparse.optimizers import Adagrad
from keras_sparse.optimizers import SGD
from keras_sparse.optimizers import split_embedding_variable_from_others
from optimizer_cases import CLASSES
from optimizer_cases import dense
from optimizer_cases import KEYS
from optimizer_cases import make_table as table_of
from optimizer_cases import random_rows
from optimizer_cases import read
from optimizer_cases import slices as gradient_of


def make_table(input_dim=4, name="table"):
    return keras_sparse.EmbeddingVariable(input_dim, 2, initializer="zeros", name=name)


def slices(*ids):
    """A gradient of ones for each of the ids."""
    return tf.IndexedSlices(tf.ones((len(ids), 2)), tf.constant(ids, tf.int64), (4, 2))


def kernel():
    return keras.Variable([0.0], name="kernel")


def first_row(table):
    return ops.lookup([table], [tf.constant([0], tf.int64)])[0].numpy()[0, 0]


def test_a_second_build_changes_nothing():
    table, optimizer = make_table(), Adagrad(1.0, initial_accumulator_value=0.0)
    optimizer.apply([slices(0)], [table])
    optimizer.build([table])
    ((_, records),) = table.export()
    np.testing.assert_array_equal(records[0, 2:], [1, 1])


def test_a_new_optimizer_starts_with_fresh_slots():
    table = make_table()
    Adagrad(1.0, initial_accumulator_value=0.0).apply([slices(0)], [table])
    row = first_row(table)
    Adagrad(1.0, initial_accumulator_value=0.5).build([table])
    ((_, records),) = table.export()
    np.testing.assert_array_equal(records[:, 2:], np.full((4, 2), 0.5))
    assert first_row(table) == row


@pytest.mark.parametrize("later", [SGD, Adagrad])
def test_refuses_a_table_that_went_to_another_optimizer(later):
    table, optimizer = make_table(), Adagrad(1.0, name="first")
    optimizer.apply([slices(0)], [table])
    later(1.0).build([table])
    with pytest.raises(RuntimeError, match="'table' must keep the slots of optimizer 'first'"):
        optimizer.apply([slices(0)])


def test_a_compiled_step_refuses_slots_that_another_optimizer_laid_out():
    table = make_table()
    first = Adagrad(0.5)
    step = tf.function(lambda: first.apply([slices(0)], [table]))
    step()
    second = Adagrad(0.5)
    second.apply([slices(1)], [table])
    before = table.numpy()
    with pytest.raises(tf.errors.FailedPreconditionError, match="another one was built on it"):
        step()
    np.testing.assert_array_equal(table.numpy(), before)
    second.apply([slices(0)], [table])


def test_a_forgotten_optimizer_leaves_the_table_free():
    table = make_table()
    SGD(1.0).apply([slices(0)], [table])
    gc.collect()
    Adagrad(1.0).apply([slices(0)], [table])
    assert table.rule == "adagrad"


PENDING = [case for case in CLASSES if case.catches_up]


@pytest.mark.parametrize("keys", [np.arange(6), KEYS[:6]], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    "case", [c for c in CLASSES if c.catches_up], ids=lambda c: c.ours.__name__
)
def test_a_new_optimizer_takes_the_rows_as_they_read(case, keys):
    """With the moves that they have missed, as in Keras."""
    rows = random_rows(6, 2)
    table, reference = table_of(keys, rows), keras.Variable(rows)

    def train(ours, stock, ids):
        values = np.full((len(ids), 2), 0.5, "float32")
        ours.apply([gradient_of(keys[np.array(ids, int)], values)], [table])
        stock.apply([dense(ids, values, 6)], [reference])

    first = (case.make(), case.make_keras())
    for ids in ([0, 1, 2], [0], [0], [], [5], [5]):
        train(*first, ids)
    before = read(table, keys)
    second = (optimizers.Adam(0.001), keras.optimizers.Adam(0.001))
    for optimizer, variable in zip(second, (table, reference), strict=True):
        optimizer.build([variable])
    np.testing.assert_array_equal(read(table, keys), before)
    for ids in ([0, 3], [], [3], [1], []):
        train(*second, ids)
    np.testing.assert_allclose(read(table, keys), reference.numpy(), rtol=0, atol=2e-6)


def split_model(layer):
    layers = [keras.Input((2,), dtype="int64"), layer, keras.layers.Flatten()]
    model = keras.Sequential([*layers, keras.layers.Dense(1)])
    model.layers[0].set_weights([random_rows(20, 4)])
    model.layers[-1].set_weights([random_rows(8, 1), np.zeros(1)])
    return model


def test_two_optimizers_share_a_model_as_in_keras():
    ours, reference = map(
        split_model, (keras_sparse.layers.Embedding(20, 4), keras.layers.Embedding(20, 4))
    )
    groups = list(split_embedding_variable_from_others(ours.trainable_variables))
    keras_groups = [reference.trainable_variables[:1], reference.trainable_variables[1:]]
    assert [len(group) for group in groups] == [1, 2]

    def stepper(model, groups, pair):
        for optimizer, variables in zip(pair, groups, strict=True):
            optimizer.build(variables)

        @tf.function
        def step(ids, targets):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(ids) - targets) ** 2)
            grads = tape.gradient(loss, groups)
            if model is reference:  # the update of all rows
                grads[0] = [tf.convert_to_tensor(grads[0][0])]
            for optimizer, each, variables in zip(pair, grads, groups, strict=True):
                optimizer.apply(each, variables)

        return step

    others = [keras.optimizers.Adam(0.001) for _ in range(2)]
    steps = [
        stepper(ours, groups, (optimizers.Adam(0.01), others[0])),
        stepper(reference, keras_groups, (keras.optimizers.Adam(0.01), others[1])),
    ]
    rng = np.random.default_rng(0)
    for number in range(30):
        ids = tf.constant(rng.integers(0, 20 if number < 10 else 5, (4, 2)))
        targets = tf.constant(rng.normal(size=(4, 1)).astype("float32"))
        for step in steps:
            step(ids, targets)
    for left, right in zip(ours.get_weights(), reference.get_weights(), strict=True):
        np.testing.assert_allclose(left, right, rtol=0, atol=2e-6)
