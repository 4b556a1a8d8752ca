"""One table and several optimizers, and one model and several optimizers."""

import gc

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_sparse import optimizers
from keras_sparse.optimizers import Adagrad
from keras_sparse.optimizers import SGD
from optimizer_cases import CLASSES
from optimizer_cases import dense
from optimizer_cases import first_row
from optimizer_cases import KEYS
from optimizer_cases import make_table
from optimizer_cases import ones_for
from optimizer_cases import random_rows
from optimizer_cases import read
from optimizer_cases import slices
from optimizer_cases import zeros_table


def test_a_second_build_changes_nothing():
    table, optimizer = zeros_table(), Adagrad(1.0, initial_accumulator_value=0.0)
    optimizer.apply([ones_for(0)], [table])
    optimizer.build([table])
    ((_, records),) = table.export()
    np.testing.assert_array_equal(records[0, 2:], [1, 1])


def test_a_new_optimizer_starts_with_fresh_slots():
    table = zeros_table()
    Adagrad(1.0, initial_accumulator_value=0.0).apply([ones_for(0)], [table])
    row = first_row(table)
    Adagrad(1.0, initial_accumulator_value=0.5).build([table])
    ((_, records),) = table.export()
    np.testing.assert_array_equal(records[:, 2:], np.full((4, 2), 0.5))
    assert first_row(table) == row


@pytest.mark.parametrize("later", [SGD, Adagrad])
def test_refuses_a_table_that_went_to_another_optimizer(later):
    table, optimizer = zeros_table(), Adagrad(1.0, name="first")
    optimizer.apply([ones_for(0)], [table])
    later(1.0).build([table])
    with pytest.raises(RuntimeError, match="'table' must keep the slots of optimizer 'first'"):
        optimizer.apply([ones_for(0)])


def test_a_compiled_step_refuses_slots_that_another_optimizer_laid_out():
    table = zeros_table()
    first = Adagrad(0.5)
    step = tf.function(lambda: first.apply([ones_for(0)], [table]))
    step()
    second = Adagrad(0.5)
    second.apply([ones_for(1)], [table])
    before = table.numpy()
    with pytest.raises(tf.errors.FailedPreconditionError, match="another one was built on it"):
        step()
    np.testing.assert_array_equal(table.numpy(), before)
    second.apply([ones_for(0)], [table])


def test_a_forgotten_optimizer_leaves_the_table_free():
    table = zeros_table()
    SGD(1.0).apply([ones_for(0)], [table])
    gc.collect()
    Adagrad(1.0).apply([ones_for(0)], [table])
    assert table.rule == "adagrad"


@pytest.mark.parametrize("keys", [np.arange(6), KEYS[:6]], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    "case", [c for c in CLASSES if c.catches_up], ids=lambda c: c.ours.__name__
)
def test_a_new_optimizer_takes_the_rows_as_they_read(case, keys):
    """With the moves that they have missed, as in Keras."""
    rows = random_rows(6, 2)
    table, reference = make_table(keys, rows), keras.Variable(rows)

    def train(ours, stock, ids):
        values = np.full((len(ids), 2), 0.5, "float32")
        ours.apply([slices(keys[np.array(ids, int)], values)], [table])
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
