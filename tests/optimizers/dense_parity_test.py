"""Hundreds of steps in which most rows have no gradient end up where the dense optimizer does."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from optimizer_cases import CLASSES
from optimizer_cases import dense
from optimizer_cases import KEYS
from optimizer_cases import make_table
from optimizer_cases import NumpyModel
from optimizer_cases import OPTIMIZERS
from optimizer_cases import random_rows
from optimizer_cases import read
from optimizer_cases import slices

# The rules themselves are followed in float64 by shorter tests (random_batches_test).
pytestmark = pytest.mark.slow("long history")
ROWS = 25
STEPS = 300
READS = (0, 1, 45, 150, 185, 250, STEPS)
WIDTHS = (1, 3, 8, 64, 100)


def rate_of(name, rate):
    if name == "decaying":
        return keras.optimizers.schedules.ExponentialDecay(rate, decay_steps=60, decay_rate=0.5)
    if name == "restarting":
        return keras.optimizers.schedules.CosineDecayRestarts(rate, first_decay_steps=40)
    return rate


class Batches:
    """The ids of each step, which repeat, and their gradients in tables of several widths.

    Some steps are without ids. From step 50 to 170 and from 190 on, only rows 0 to 4 have any; the
    last rows have their first ones after step 170.
    """

    def __init__(self, sizes, widths, every_row):
        rng = np.random.default_rng(5)
        steps = []
        for step in range(STEPS):
            busy = step < 50 or 170 <= step < 190
            rare = ROWS if step > 170 else ROWS - 5
            ids = np.concatenate(
                [
                    rng.integers(0, 5, rng.integers(0, 6)),
                    rng.integers(5, rare, 4 if busy else 0),
                    rng.permutation(ROWS if every_row else 0),
                ]
            )
            steps.append(ids[: 0 if step % 50 == 7 and not every_row else None])
        self.splits = np.cumsum([0, *map(len, steps)])
        self.ids = np.concatenate(steps).astype(np.int64)
        size = np.array(sizes)[self.ids % len(sizes)][:, np.newaxis]
        self.values = [(rng.normal(size=(len(size), w)) * size).astype("float32") for w in widths]

    def train(self, *trained):
        """Yields the rows of all after each number of steps in READS."""

        @tf.function
        def train(first, last):
            for step in tf.range(first, last):
                begin, end = tf.constant(self.splits)[step], tf.constant(self.splits)[step + 1]
                values = [tf.constant(value)[begin:end] for value in self.values]
                for each in trained:
                    each.apply(tf.constant(self.ids)[begin:end], values)

        for first, last in itertools.pairwise((0, *READS)):
            train(tf.constant(first), tf.constant(last))
            yield [each.rows() for each in trained]

    def train_numpy(self, case, rows, rates):
        models = [NumpyModel(case, each) for each in rows]
        for first, last in itertools.pairwise((0, *READS)):
            for step in range(first, last):
                part = slice(*self.splits[step : step + 2])
                for model, values in zip(models, self.values, strict=True):
                    model.rate = rates[step]
                    model.apply(self.ids[part], values[part])
            yield [model.rows for model in models]


class Ours:
    """A table for each array of rows, static and dynamic in turn."""

    def __init__(self, optimizer, rows, first_kind):
        kinds = [np.arange(ROWS), KEYS[:ROWS]]
        self.keys = [kinds[(i + first_kind) % 2] for i in range(len(rows))]
        self.tables = [make_table(k, each) for k, each in zip(self.keys, rows, strict=True)]
        self.optimizer = optimizer
        optimizer.build(self.tables)

    def apply(self, ids, values):
        keys = [tf.gather(tf.constant(each), ids) for each in self.keys]
        self.optimizer.apply([slices(k, v) for k, v in zip(keys, values, strict=True)])

    def rows(self):
        return [read(table, keys) for table, keys in zip(self.tables, self.keys, strict=True)]


class Stock:
    """A variable with all widths side by side: each element goes its own way."""

    def __init__(self, optimizer, rows):
        self.variable = keras.Variable(np.concatenate(rows, axis=1))
        self.optimizer = optimizer
        optimizer.build([self.variable])

    def apply(self, ids, values):
        self.optimizer.apply([dense(ids, tf.concat(values, axis=1), ROWS)])

    def rows(self):
        return np.split(self.variable.numpy(), np.cumsum(WIDTHS)[:-1], axis=1)


def assert_same_rows(steps, ours, expected):
    for width, rows, others in zip(WIDTHS, ours, expected, strict=True):
        assert np.abs(others).max() < 0.3
        message = f"after {steps} steps, width {width}"
        np.testing.assert_allclose(rows, others, rtol=0, atol=2e-6, err_msg=message)


# Each case with rates that fall, and one of a class with one that stays or some that rise again;
# where the rule is followed in float64 (random_batches_test) each has all of them.
FOLLOWED = [case for case in OPTIMIZERS if case.keras]
RATES = [
    *((case, "decaying", 1) for case in FOLLOWED),
    *(
        (case, ("constant", "restarting")[i % 2], 0)
        for i, case in enumerate(case for case in CLASSES if case.keras)
    ),
]


@pytest.mark.parametrize(
    ("case", "rate", "first_kind"), RATES, ids=lambda each: getattr(each, "name", each)
)
def test_equals_keras_on_the_dense_gradient(case, rate, first_kind):
    rate = rate_of(rate, case.arguments["learning_rate"])
    rows = [random_rows(ROWS, width) for width in WIDTHS]
    batches = Batches(case.sizes, WIDTHS, every_row=case.lazy)
    ours = Ours(case.make(learning_rate=rate), rows, first_kind)
    stock = Stock(case.make_keras(learning_rate=rate), rows)
    for steps, both in zip(READS, batches.train(ours, stock), strict=True):
        assert_same_rows(steps, *both)


# Beside a one a float holds few digits of what a step takes away.
@pytest.mark.parametrize(
    ("make", "rate", "decay"),
    [
        ("SGD", 1e-3, 1e-3),
        ("SGD", 1e-3, 4e-3),
        ("AdamW", 1e-4, 0.01),
        ("AdamW", 1e-4, 0.04),
        ("RMSprop", 1e-4, 0.02),
        ("Adamax", 1e-4, 0.04),
        ("Lion", 1e-5, 0.1),
        ("Lion", 1e-5, 0.4),
    ],
)
def test_a_little_weight_decay_of_rows_near_one_is_that_of_exact_arithmetic(make, rate, decay):
    rows = [0.9 + random_rows(ROWS, width) for width in WIDTHS]
    batches = Batches((0.1, 0.01), WIDTHS, every_row=False)
    arguments = {"learning_rate": rate, "weight_decay": decay}
    case = next(case for case in OPTIMIZERS if case.ours.__name__ == make)
    case = case._replace(arguments=arguments, lazy=False)
    trained = batches.train(Ours(case.make(), rows, first_kind=0))
    expected = batches.train_numpy(case, rows, np.full(STEPS, rate))
    # Lion's moves are alike and so is their rounding: rows of hundreds of gradients show it.
    kept = slice(5 if make == "Lion" else 0, None)
    for steps, (ours,), others in zip(READS, trained, expected, strict=True):
        for width, each, other in zip(WIDTHS, ours, others, strict=True):
            message = f"after {steps} steps, width {width}"
            np.testing.assert_allclose(each[kept], other[kept], 0, 2e-6, err_msg=message)


@pytest.mark.parametrize("case", [c for c in OPTIMIZERS if c.lazy], ids=lambda case: case.name)
def test_a_lazy_one_leaves_rows_outside_the_batch(case):
    schedule = rate_of("decaying", case.arguments["learning_rate"])
    rates = np.asarray(schedule(np.arange(STEPS)), np.float64)
    rows = [random_rows(ROWS, width) for width in WIDTHS]
    batches = Batches(case.sizes, WIDTHS, every_row=False)
    trained = batches.train(Ours(case.make(learning_rate=schedule), rows, first_kind=0))
    expected = batches.train_numpy(case, rows, rates)
    for steps, (ours,), others in zip(READS, trained, expected, strict=True):
        assert_same_rows(steps, ours, others)
