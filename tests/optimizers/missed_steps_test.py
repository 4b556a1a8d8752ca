"""What a user may do to a table whose rows have moves to make up for."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import checks
from keras_sparse import EmbeddingVariable
from keras_sparse import optimizers
from optimizer_cases import CLASSES
from optimizer_cases import dense
from optimizer_cases import each_class
from optimizer_cases import KEYS
from optimizer_cases import make_table
from optimizer_cases import OPTIMIZERS
from optimizer_cases import random_rows
from optimizer_cases import read
from optimizer_cases import slices

ROWS = 6
each_dense_class = pytest.mark.parametrize(
    "case", [c for c in CLASSES if not c.lazy], ids=lambda case: case.ours.__name__
)


class Pair:
    """A table and the variable of all its rows, each with its optimizer."""

    def __init__(self, ours, reference, keys=KEYS[:ROWS], rows=None):
        rows = random_rows(ROWS, 2) if rows is None else rows
        self.ours, self.reference, self.keys = ours, reference, keys
        self.table, self.variable = make_table(keys, rows), keras.Variable(rows)
        ours.build([self.table])
        reference.build([self.variable])
        self._idle_compiled = tf.function(self._idle)

    def step(self, *ids, gradient=0.5):
        values = tf.fill((len(ids), 2), gradient)
        self.ours.apply([slices(self.keys[np.array(ids, int)], values)])
        self.reference.apply([dense(ids, values, len(self.keys))])

    def idle(self, steps):
        if steps < 10:
            self._idle(range(steps))
        else:
            self._idle_compiled(tf.range(steps))

    def _idle(self, steps):
        for _ in steps:
            self.ours.apply([slices([], tf.zeros((0, 2)))])
            self.reference.apply([tf.zeros((len(self.keys), 2))])

    def assert_same(self, atol=2e-6):
        ours = read(self.table, self.keys)
        np.testing.assert_allclose(ours, self.variable.numpy(), rtol=0, atol=atol)


@each_dense_class
@pytest.mark.parametrize("keys", [np.arange(ROWS), KEYS[:ROWS]], ids=["assigned", "imported"])
def test_replaced_rows_go_on_with_their_slots_as_in_keras(keys, case):
    pair = Pair(case.make(), case.make_keras(), keys=keys)
    pair.step(0, 1, 2)
    pair.idle(3)
    rows, replaced = pair.variable.numpy(), [1, 5]
    if pair.table.input_dim:
        rows = random_rows(ROWS, 2, seed=8)
        pair.table.assign(rows)
    else:
        rows[replaced] = [[0.25, 0.125], [-0.25, 0.0]]
        pair.table.import_(keys[replaced], rows[replaced])
    pair.variable.assign(rows)
    # Rows that are written are there as they are; others have moved.
    atol = 0 if pair.table.input_dim else 2e-6
    np.testing.assert_allclose(read(pair.table, keys), rows, rtol=0, atol=atol)
    pair.idle(2)
    pair.step(1, 3)
    pair.idle(2)
    pair.assert_same()


@each_dense_class
def test_a_key_that_comes_late_has_nothing_to_make_up_for(case):
    pair = Pair(case.make(), case.make_keras(), rows=np.zeros((ROWS, 2), "float32"))
    pair.table = EmbeddingVariable(None, 2, initializer="zeros")
    pair.ours = case.make()
    pair.ours.build([pair.table])
    pair.step(0, 1)
    pair.idle(3)
    pair.step(4, 5)
    pair.idle(2)
    pair.assert_same()
    assert pair.table.num_rows == 4


@each_class
def test_a_cleared_table_has_nothing_to_make_up_for(case):
    tables = [EmbeddingVariable(ROWS, 2, seed=1) for _ in range(2)]
    case.make().build([tables[0]])
    optimizer = case.make()
    for ids in ([0, 1], [], [2], []):
        optimizer.apply([slices(ids, np.ones((len(ids), 2), "float32"))], [tables[1]])
    tables[1].clear()
    checks.assert_same_tables(*tables)


@each_class
def test_follows_the_rate_and_the_step_that_a_user_sets(case):
    pair = Pair(case.make(), case.make_keras())
    every = range(ROWS) if case.lazy else ()
    rate = case.arguments["learning_rate"]
    # AdamAsync counts steps by itself: our optimizer's count changes nothing.
    counts_itself = case.ours is optimizers.AdamAsync
    counters = [pair.ours] if counts_itself else [pair.ours, pair.reference]
    # What AdagradDecay has decayed at a later step is not done again at an earlier one.
    back = 200 if case.ours is optimizers.AdagradDecay else 0
    for factor, iterations in ((1, 0), (0.25, 100), (2, back), (0.5, 10**7)):
        for optimizer in (pair.ours, pair.reference):
            optimizer.learning_rate = rate * factor
        for optimizer in counters:
            optimizer.iterations.assign(iterations)
        pair.step(*(every or (0, 1)))
        for _ in range(3):
            pair.step(*every)
        pair.step(*(every or (1, 2)))
    pair.assert_same()


@each_dense_class
def test_a_rate_of_zero_moves_nothing_but_what_velocity_does(case):
    pair = Pair(case.make(), case.make_keras())
    pair.step(0, 1)
    for optimizer in (pair.ours, pair.reference):
        optimizer.learning_rate = 0.0
    pair.step(1, 2)
    pair.idle(5)
    pair.step(3)
    pair.assert_same()
    for optimizer in (pair.ours, pair.reference):
        optimizer.learning_rate = case.arguments["learning_rate"]
    pair.idle(5)
    pair.assert_same()


@pytest.mark.parametrize(
    ("case", "wrong"),
    [*zip((c for c in OPTIMIZERS if not c.lazy), itertools.cycle([np.nan, np.inf]))],
    ids=lambda each: getattr(each, "name", str(each)),
)
def test_a_gradient_that_is_not_finite_shows_in_its_row_and_no_other(case, wrong):
    pair = Pair(case.make(), case.make_keras())
    pair.step(0, 1)
    pair.step(0, gradient=wrong)
    pair.step(1)
    pair.idle(3)
    pair.step(0, 2)
    ours, expected = read(pair.table, pair.keys), pair.variable.numpy()
    np.testing.assert_array_equal(np.isfinite(ours[0]), np.isfinite(expected[0]))
    np.testing.assert_allclose(ours[1:], expected[1:], rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "Adamax", "Nadam"])
@pytest.mark.parametrize("epsilon", [1e-7, 1e-3])
def test_without_momentum_rows_without_a_gradient_stay(name, epsilon):
    arguments = {"learning_rate": 0.01, "beta_1": 0.0, "epsilon": epsilon}
    pair = Pair(
        getattr(optimizers, name)(**arguments), getattr(keras.optimizers, name)(**arguments)
    )
    pair.step(0, 1)
    pair.step(1)
    pair.idle(3)
    pair.assert_same()
    pair.step(2, 2)
    pair.assert_same()


@pytest.mark.parametrize("beta_1", [0.9, 0.5])
def test_lion_stops_when_momentum_is_too_small_for_a_float(beta_1):
    arguments = {"learning_rate": 1e-4, "beta_1": beta_1, "beta_2": 0.8}
    pair = Pair(optimizers.Lion(**arguments), keras.optimizers.Lion(**arguments))
    pair.step(0, 1)
    pair.step(1, gradient=1e-6)
    pair.step(2, gradient=-1e-30)
    pair.idle(500)
    # The number of steps, of some 390, may be one off: Keras rounds momentum at each.
    pair.assert_same(atol=1.1e-4)
    before = read(pair.table, pair.keys)
    pair.idle(100)
    np.testing.assert_array_equal(read(pair.table, pair.keys), before)
    assert np.all(np.abs(before[:2] - random_rows(ROWS, 2)[:2]) > 0.03)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("SGD", {"learning_rate": 1e-5, "momentum": 0.999}),
        ("Adam", {"learning_rate": 1e-4, "beta_1": 0.999, "beta_2": 0.9999}),
        ("AdamW", {"learning_rate": 1e-4, "weight_decay": 0.5}),
        ("RMSprop", {"learning_rate": 1e-4, "momentum": 0.99, "centered": True}),
    ],
)
def test_thousands_of_missed_steps_are_made_up_for_at_once(name, arguments):
    pair = Pair(
        getattr(optimizers, name)(**arguments), getattr(keras.optimizers, name)(**arguments)
    )
    pair.step(0, 1)
    pair.step(1, gradient=-1e-3)
    for _ in range(3):
        pair.idle(1100)
        pair.step(2)
        pair.assert_same()


def test_velocity_that_does_not_decay_moves_a_row_for_ever():
    made = [library.SGD(0.5, momentum=1.0) for library in (optimizers, keras.optimizers)]
    pair = Pair(*made, rows=np.zeros((ROWS, 2), "float32"))
    pair.step(0)
    pair.idle(2999)
    pair.assert_same(atol=0)
    np.testing.assert_array_equal(read(pair.table, pair.keys[:1]), [[-750, -750]])


def test_reads_and_exports_of_pending_rows_agree():
    for case in CLASSES:
        pair = Pair(case.make(), optimizers.SGD(0.0))
        pair.step(0, 1, 2)
        pair.idle(7)
        content = checks.table_content(pair.table)
        rows = np.stack([np.frombuffer(content[int(k)], "float32")[:2] for k in pair.keys])
        np.testing.assert_array_equal(read(pair.table, pair.keys), rows, err_msg=case.name)
