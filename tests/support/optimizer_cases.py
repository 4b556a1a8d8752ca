"""Every optimizer, for the tests that hold for all: a new one joins with a line in OPTIMIZERS."""

import inspect
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import numpy_rules
from keras_sparse import native
from keras_sparse import optimizers

# Gradients of rows 0, 1, 2 ... are of these sizes, in turn.
SIZES = (1.0, 1e-7, 1e3, 0.0, 1e-4)


class Case(NamedTuple):
    ours: type
    # What it equals: of dense gradients or, if lazy, where each row is in every batch. `None` is
    # what Keras has no counterpart of.
    keras: Callable | None
    numpy: Callable
    arguments: dict[str, Any]
    # Whether rows outside the batch stay where a dense optimizer may move them.
    lazy: bool = False
    sizes: tuple[float, ...] = SIZES
    first_slot: float = 0.0

    @property
    def name(self):
        numbers = ",".join(f"{name}={value}" for name, value in self.arguments.items())
        return f"{self.ours.__name__}({numbers})"

    @property
    def catches_up(self):
        """Whether a row has moves to make up for when it is next used."""
        plain = self.ours in (optimizers.SGD, optimizers.Adagrad)
        return not self.lazy and not (
            plain and {"momentum", "weight_decay"}.isdisjoint(self.arguments)
        )

    def make(self, **kwargs):
        return self.ours(**{**self.arguments, **kwargs})

    def make_keras(self, **kwargs):
        arguments = {**self.arguments, **kwargs}
        return self.keras(**arguments) if self.keras else NumpyOptimizer(self, **arguments)


def keras_rmsprop(beta_1, beta_2, apply_sparse_rmsprop, **kwargs):
    return keras.optimizers.RMSprop(momentum=beta_1, rho=beta_2, **kwargs)


# Rates are such that rows stay below 0.3: beyond, Keras' own rounding shows in the sixth digit.
SMALL = {"sizes": (0.1, 1e-7, 1.0, 0.0)}
SGD = (optimizers.SGD, keras.optimizers.SGD, numpy_rules.sgd)
ADAGRAD = (optimizers.Adagrad, keras.optimizers.Adagrad, numpy_rules.adagrad)
RMSPROP = (optimizers.RMSprop, keras.optimizers.RMSprop, numpy_rules.rmsprop)
ADAM = (optimizers.Adam, keras.optimizers.Adam, numpy_rules.adam)
ADAMW = (optimizers.AdamW, keras.optimizers.AdamW, numpy_rules.adam)
ADAMAX = (optimizers.Adamax, keras.optimizers.Adamax, numpy_rules.adamax)
NADAM = (optimizers.Nadam, keras.optimizers.Nadam, numpy_rules.nadam)
ADADELTA = (optimizers.Adadelta, keras.optimizers.Adadelta, numpy_rules.adadelta)
LION = (optimizers.Lion, keras.optimizers.Lion, numpy_rules.lion)
FTRL = (optimizers.Ftrl, keras.optimizers.Ftrl, numpy_rules.ftrl)
LAZY_ADAM = (optimizers.LazyAdam, keras.optimizers.Adam, numpy_rules.adam)
ADAM_ASYNC = (optimizers.AdamAsync, keras.optimizers.Adam, numpy_rules.adam)
ADAM_ASYNC_RMSPROP = (optimizers.AdamAsync, keras_rmsprop, numpy_rules.adam_async_rmsprop)
ADAGRAD_DECAY = (optimizers.AdagradDecay, None, numpy_rules.adagrad_decay)
ROW_WISE_ADAGRAD = (optimizers.RowWiseAdagrad, None, numpy_rules.row_wise_adagrad)
FTRL_OPTIONS = {
    "learning_rate_power": -0.4,
    "l1_regularization_strength": 0.01,
    "l2_regularization_strength": 0.1,
    "l2_shrinkage_regularization_strength": 0.02,
    "beta": 0.2,
    "weight_decay": 0.1,
}
RMSPROP_VARIANT = {"beta_1": 0.5, "beta_2": 0.9, "epsilon": 1e-7, "apply_sparse_rmsprop": True}
OFTEN_DECAYED = {
    "accumulator_decay_step": 5,
    "accumulator_decay_rate": 0.7,
    "weight_decay": 0.1,
}
NESTEROV = {"momentum": 0.95, "nesterov": True, "weight_decay": 600.0}
OPTIMIZERS = [
    Case(*SGD, {"learning_rate": 0.01}, **SMALL),
    Case(*SGD, {"learning_rate": 1e-5, "weight_decay": 30.0}),
    Case(*SGD, {"learning_rate": 5e-7, **NESTEROV}),
    Case(*SGD, {"learning_rate": 0.001, "momentum": 0.9}, **SMALL),
    Case(*ADAGRAD, {"learning_rate": 0.01}, first_slot=0.1),
    Case(*ADAGRAD, {"learning_rate": 0.005, "initial_accumulator_value": 0.0, "weight_decay": 0.1}),
    Case(*RMSPROP, {"learning_rate": 0.001}),
    Case(*RMSPROP, {"learning_rate": 2e-4, "rho": 0.8, "momentum": 0.9, "weight_decay": 0.5}),
    Case(*RMSPROP, {"learning_rate": 5e-4, "momentum": 0.5, "centered": True, "epsilon": 1e-4}),
    Case(*ADAM, {"learning_rate": 0.001}),
    Case(*ADAM, {"learning_rate": 5e-4, "beta_1": 0.95, "beta_2": 0.9, "epsilon": 1e-3}),
    Case(*ADAM, {"learning_rate": 0.001, "amsgrad": True}),
    Case(*ADAMW, {"learning_rate": 0.001, "weight_decay": 0.5}),
    Case(*ADAMAX, {"learning_rate": 0.001}),
    Case(*NADAM, {"learning_rate": 5e-4}),
    Case(*NADAM, {"learning_rate": 5e-4, "beta_2": 0.95, "weight_decay": 0.1}),
    Case(*ADADELTA, {"learning_rate": 0.5, "weight_decay": 1e-3}),
    Case(*LION, {"learning_rate": 3e-4}),
    Case(*LION, {"learning_rate": 5e-4, "weight_decay": 2.0}),
    Case(*FTRL, {"learning_rate": 0.003}, lazy=True, first_slot=0.1),
    Case(*FTRL, {"learning_rate": 0.001, **FTRL_OPTIONS}, lazy=True, first_slot=0.1),
    Case(*LAZY_ADAM, {"learning_rate": 0.001}, lazy=True),
    Case(
        *LAZY_ADAM,
        {"learning_rate": 0.001, "beta_1": 0.8, "beta_2": 0.95, "weight_decay": 0.5},
        lazy=True,
    ),
    Case(*ADAM_ASYNC_RMSPROP, {"learning_rate": 3e-4, **RMSPROP_VARIANT}, lazy=True),
    Case(
        *ADAM_ASYNC,
        {"learning_rate": 0.001, "epsilon": 1e-7, "weight_decay": 0.5},
        lazy=True,
    ),
    Case(
        *ADAGRAD_DECAY,
        {"learning_rate": 0.005, "accumulator_decay_step": 30, "weight_decay": 0.1},
        lazy=True,
        first_slot=0.1,
    ),
    Case(*ADAGRAD_DECAY, {"learning_rate": 0.005, **OFTEN_DECAYED}, lazy=True, first_slot=0.1),
    Case(
        *ROW_WISE_ADAGRAD,
        {"learning_rate": 0.005, "weight_decay": 0.1},
        lazy=True,
        first_slot=0.1,
    ),
]
each_optimizer = pytest.mark.parametrize("case", OPTIMIZERS, ids=lambda case: case.name)
# Where one case a class is enough: the last, whose rows move by more than a tolerance in a few
# steps, and after them where a slot keeps them moving.
CLASSES = list({case.ours: case for case in OPTIMIZERS}.values())
# Its class case is amsgrad.
PLAIN_ADAM = next(case for case in OPTIMIZERS if case.ours is optimizers.Adam)
each_class = pytest.mark.parametrize("case", CLASSES, ids=lambda case: case.ours.__name__)

# Where a test needs keys of a dynamic table: of both signs.
KEYS = np.arange(64, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
KEYS = KEYS.view(np.int64)
KEYS[1:3] = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def make_table(keys, rows, **kwargs):
    """Returns a table, static if the keys are 0, 1, 2 ..., whose rows are `rows`."""
    static = np.array_equal(keys, np.arange(len(keys)))
    table = keras_sparse.EmbeddingVariable(len(keys) if static else None, rows.shape[1], **kwargs)
    table.import_(keys, rows)
    return table


def read(table, keys):
    return native.lookup([table], [tf.constant(keys, tf.int64)])[0].numpy()


def slices(ids, values):
    """Returns a gradient of the rows `ids`, which may repeat."""
    shape = (2**63 - 1, values.shape[1])
    return tf.IndexedSlices(tf.convert_to_tensor(values), tf.cast(ids, tf.int64), shape)


def dense(ids, values, num_rows):
    """Returns the same gradient of all rows."""
    return tf.math.unsorted_segment_sum(values, tf.cast(ids, tf.int64), num_rows)


def zeros_table(input_dim=4, name="table"):
    """Returns a table of two columns whose rows are zeros."""
    return keras_sparse.EmbeddingVariable(input_dim, 2, initializer="zeros", name=name)


def ones_for(*ids):
    """Returns a gradient of ones for each of the ids, of two columns."""
    return slices(np.array(ids, np.int64), np.ones((len(ids), 2), "float32"))


def kernel():
    return keras.Variable([0.0], name="kernel")


def first_row(table):
    """Returns the first number of the row of id 0."""
    return read(table, [0])[0, 0]


def random_rows(num_rows, dim, seed=7):
    return np.random.default_rng(seed).uniform(-0.05, 0.05, (num_rows, dim)).astype("float32")


def make_model(optimizer, num_rows, seed=3, **compile_arguments):
    """Returns a compiled model of a static and a dynamic table, the first of `num_rows`."""
    ids = keras.Input((2,), dtype="int64")
    static = keras_sparse.layers.Embedding(num_rows, 3, "mean", seed=seed)(ids)
    dynamic = keras_sparse.layers.Embedding(None, 2, "sum", seed=seed)(ids)
    kernel = keras.initializers.GlorotUniform(seed)
    rows = keras.layers.Concatenate()([static, dynamic])
    model = keras.Model(ids, keras.layers.Dense(1, kernel_initializer=kernel)(rows))
    model.compile(optimizer, loss="mse", **compile_arguments)
    return model


def tables_of(model):
    return [v for v in model.trainable_variables if isinstance(v, keras_sparse.EmbeddingVariable)]


class NumpyModel:
    """A table in float64 that follows a case's rule."""

    def __init__(self, case, rows):
        self.case = case
        self.state = np.zeros((4, *rows.shape))
        self.state[0], self.state[1] = rows, case.first_slot
        self.num_steps = 0
        self.arguments = dict(case.arguments)
        self.rate = self.arguments.pop("learning_rate")
        self.weight_decay = self.arguments.pop("weight_decay", 0.0)

    @property
    def rows(self):
        return self.state[0]

    def apply(self, ids, values):
        """One step of all rows at `self.rate`; of a lazy rule the others are put back."""
        self.num_steps += 1
        g = np.zeros_like(self.rows)
        np.add.at(g, ids, values)
        before = self.state.copy()
        self.state[0] *= 1 - self.rate * self.weight_decay
        self.case.numpy(self.state, g, self.num_steps, self.rate, **self.arguments)
        if self.case.lazy:
            others = np.setdiff1d(np.arange(len(g)), ids)
            decays = self.case.numpy is numpy_rules.adagrad_decay  # its accumulators do
            for slot in [0] if decays else range(4):
                self.state[slot, others] = before[slot, others]


class NumpyOptimizer(keras.optimizers.Optimizer):
    """A case's rule in float64, where Keras has none: all but the rule is Keras' own.

    Each row is in every batch that the variable has a gradient in.
    """

    def __init__(self, case, **arguments):
        rule = inspect.signature(case.numpy).parameters
        super().__init__(**{n: value for n, value in arguments.items() if n not in rule})
        constants = {n: value for n, value in arguments.items() if n in rule}
        self.case = case._replace(arguments={"learning_rate": 0.0, **constants})
        self.models = {}

    def update_step(self, gradient, variable, learning_rate):
        model = self.models.setdefault(id(variable), NumpyModel(self.case, variable.numpy()))
        every = np.arange(len(model.rows))
        # The steps in which the variable had no gradient. Of 10**7 the last are enough: only
        # AdagradDecay feels them, of the rules that come here, and 300 have many of its decays.
        model.num_steps = max(model.num_steps, int(self.iterations) - 300)
        while model.num_steps < int(self.iterations):
            model.apply(every, np.zeros_like(model.rows))
        model.num_steps = int(self.iterations)
        model.rate, model.state[0] = float(learning_rate), variable.numpy()
        model.apply(every, gradient.numpy())
        variable.assign(model.rows)
