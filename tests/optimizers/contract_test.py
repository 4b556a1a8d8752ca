"""What every optimizer holds to: a new one joins with a line in OPTIMIZERS and its numpy rule."""

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

import keras_sparse
from keras_sparse import ops
from keras_sparse.optimizers import Adagrad
from keras_sparse.optimizers import LazyAdam
from keras_sparse.optimizers import SGD

ROWS = 12
KEYS = np.arange(ROWS, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
KEYS = KEYS.view(np.int64)  # of both signs
KEYS[1:3] = np.iinfo(np.int64).min, np.iinfo(np.int64).max


# The rules in float64: `record` is the row and its slots, (1 + slots, dim), changed in place.


def sgd(record, g, step, learning_rate):
    record[0] -= learning_rate * g


def adagrad(record, g, step, learning_rate, initial_accumulator_value=0.1):
    record[1] += g**2
    record[0] -= learning_rate * g / np.sqrt(record[1] + 1e-7)


def lazy_adam(record, g, step, learning_rate, beta_1=0.9, beta_2=0.999):
    record[1] += (g - record[1]) * (1 - beta_1)
    record[2] += (g**2 - record[2]) * (1 - beta_2)
    alpha = learning_rate * np.sqrt(1 - beta_2**step) / (1 - beta_1**step)
    record[0] -= alpha * record[1] / (np.sqrt(record[2]) + 1e-7)


class Case(NamedTuple):
    ours: type
    keras: type
    numpy: Callable
    arguments: dict[str, Any]
    # Whether rows without a gradient stay where Keras would move them.
    lazy: bool = False


OPTIMIZERS = [
    Case(SGD, keras.optimizers.SGD, sgd, {"learning_rate": 0.1}),
    Case(Adagrad, keras.optimizers.Adagrad, adagrad, {"learning_rate": 0.1}),
    Case(
        Adagrad,
        keras.optimizers.Adagrad,
        adagrad,
        {"learning_rate": 0.02, "initial_accumulator_value": 0.0},
    ),
    Case(LazyAdam, keras.optimizers.Adam, lazy_adam, {"learning_rate": 0.02}, lazy=True),
    Case(
        LazyAdam,
        keras.optimizers.Adam,
        lazy_adam,
        {"learning_rate": 0.01, "beta_1": 0.8, "beta_2": 0.95},
        lazy=True,
    ),
]
each_optimizer = pytest.mark.parametrize(
    "case", OPTIMIZERS, ids=lambda case: f"{case.ours.__name__}-{case.arguments}"
)
each_kind = pytest.mark.parametrize("keys", [np.arange(ROWS), KEYS], ids=["static", "dynamic"])


def make_table(keys, rows):
    """Returns a table, static if the keys are 0, 1, 2 ..., whose rows are `rows`."""
    static = np.array_equal(keys, np.arange(len(keys)))
    table = keras_sparse.EmbeddingVariable(len(keys) if static else None, rows.shape[1])
    table.import_(keys, rows, np.empty(0, np.int64))
    return table


def read(table, keys):
    return ops.lookup([table], [tf.constant(keys)])[0].numpy()


def slices(keys, ids, values):
    return tf.IndexedSlices(
        tf.constant(values), tf.constant(keys[ids]), (len(keys), values.shape[1])
    )


def random_batches(case, dim, steps, seed=0):
    """Returns a list of (ids, gradients); ids repeat, and some come in no batch but a few."""
    rng = np.random.default_rng(seed)
    batches = []
    for _ in range(steps):
        ids = rng.integers(0, ROWS, ROWS) // rng.integers(1, 3, ROWS)
        if case.lazy:
            ids = np.concatenate([ids, rng.permutation(ROWS)])
        batches.append((ids, rng.normal(size=(len(ids), dim)).astype("float32")))
    return batches


def train(optimizer, keys, rows, batches):
    """Returns the rows after the batches."""
    table = make_table(keys, rows)
    for ids, values in batches:
        optimizer.apply([slices(keys, ids, values)], [table])
    return read(table, keys)


def train_keras(optimizer, rows, batches):
    layer = keras.layers.Embedding(*rows.shape, weights=[rows])
    layer.build()
    for ids, values in batches:
        gradient = tf.convert_to_tensor(slices(np.arange(ROWS), ids, values))
        optimizer.apply([gradient], [layer.embeddings])
    return layer.embeddings.numpy()


def initial_rows(dim):
    return np.random.default_rng(7).uniform(-0.05, 0.05, (ROWS, dim)).astype("float32")


@each_kind
@each_optimizer
@pytest.mark.parametrize("dim", [1, 3, 8, 64, 100])
def test_equals_keras_on_the_dense_gradient(case, keys, dim):
    batches = random_batches(case, dim, steps=20)
    ours = train(case.ours(**case.arguments), keys, initial_rows(dim), batches)
    expected = train_keras(case.keras(**case.arguments), initial_rows(dim), batches)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-6)


SCHEDULE = keras.optimizers.schedules.ExponentialDecay(0.05, decay_steps=5, decay_rate=0.5)


@each_optimizer
def test_follows_a_schedule_as_keras_does(case):
    arguments = {**case.arguments, "learning_rate": SCHEDULE}
    batches = random_batches(case, dim=4, steps=20)
    ours = train(case.ours(**arguments), KEYS, initial_rows(4), batches)
    expected = train_keras(case.keras(**arguments), initial_rows(4), batches)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "option",
    [{"clipvalue": 0.3}, {"clipnorm": 0.5}, {"global_clipnorm": 0.5}, {"loss_scale_factor": 64.0}],
    ids=str,
)
@each_kind
@each_optimizer
def test_scales_and_clips_as_keras_does_the_dense_gradient(case, keys, option):
    ours, reference = (make(**case.arguments, **option) for make in (case.ours, case.keras))
    table = make_table(keys, initial_rows(4))
    kernel, keras_kernel = (keras.Variable(np.ones((3, 2), "float32")) for _ in range(2))
    embeddings = keras.Variable(initial_rows(4))
    for step, (ids, values) in enumerate(random_batches(case, dim=4, steps=5)):
        dense = tf.fill((3, 2), 0.7 * (step - 2))
        ours.apply([dense, slices(keys, ids, values)], [kernel, table])
        values = tf.convert_to_tensor(slices(np.arange(ROWS), ids, values))
        reference.apply([dense, values], [keras_kernel, embeddings])
    np.testing.assert_allclose(read(table, keys), embeddings.numpy(), rtol=0, atol=1e-6)
    np.testing.assert_allclose(kernel.numpy(), keras_kernel.numpy(), rtol=0, atol=1e-6)


@each_kind
@each_optimizer
def test_leaves_other_rows_as_they_were_to_the_bit(case, keys):
    rows = initial_rows(3)
    used = [(np.array([1, 4, 1]), np.ones((3, 3), "float32"))] * 3
    after = train(case.ours(**case.arguments), keys, rows, used)
    others = [i for i in range(ROWS) if i not in (1, 4)]
    np.testing.assert_array_equal(after[others], rows[others])
    assert not np.any(after[[1, 4]] == rows[[1, 4]])


touches = st.tuples(st.integers(0, ROWS - 1), st.integers(-8, 8).map(lambda i: i / 4))


@each_kind
@each_optimizer
@settings(max_examples=15, deadline=None, derandomize=True)
@given(steps=st.lists(st.lists(touches, max_size=8), min_size=1, max_size=12))
def test_follows_its_rule_in_float64_whatever_the_batches(case, keys, steps):
    optimizer = case.ours(**case.arguments)
    rows = initial_rows(2)
    batches = []
    for step in steps:
        ids = np.array([i for i, _ in step], np.int64)
        values = np.array([[g, 2 * g] for _, g in step], "float32").reshape(-1, 2)
        batches.append((ids, values))
    records = [rows, *(np.full_like(rows, v) for v in optimizer.slot_initial_values().values())]
    records = np.stack(records, axis=1).astype("float64")
    for step, (ids, values) in enumerate(batches, start=1):
        for i in np.unique(ids):
            with np.errstate(invalid="ignore"):  # 0/0
                case.numpy(records[i], values[ids == i].sum(axis=0), step, **case.arguments)
    after = train(optimizer, keys, rows, batches)
    # Keras' Adam takes its float32 betas for exact, which moves a row by 1e-5 of a step.
    np.testing.assert_allclose(after, records[:, 0], rtol=0, atol=5e-6)


IDS = np.random.default_rng(3).integers(0, ROWS, (40, 2))
TARGETS = np.random.default_rng(4).normal(size=(40, 1)).astype("float32")


def make_model(keys):
    static = np.array_equal(keys, np.arange(ROWS))
    table = keras_sparse.layers.Embedding(ROWS if static else None, 3)
    layers = [
        keras.Input((2,), dtype="int64"),
        table,
        keras.layers.Flatten(),
        keras.layers.Dense(1),
    ]
    model = keras.Sequential(layers)
    table.embeddings.import_(keys, initial_rows(3))
    model.layers[-1].kernel.assign(np.linspace(-1, 1, 6)[:, None])
    return model


def state(model, keys):
    rows = read(model.layers[0].embeddings, keys)
    return np.concatenate([w.reshape(-1) for w in (rows, *model.layers[-1].get_weights())])


def fit(case, keys, **compile_arguments):
    model = make_model(keys)
    model.compile(case.ours(**case.arguments), loss="mse", **compile_arguments)
    model.fit(keys[IDS], TARGETS, batch_size=8, epochs=2, shuffle=False, verbose=0)
    return model


def run_loop(case, keys, decorate):
    model, optimizer = make_model(keys), case.ours(**case.arguments)

    @decorate
    def step(inputs, targets):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(inputs) - targets) ** 2)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(grads, model.trainable_variables)

    for i in [*range(0, len(IDS), 8)] * 2:
        step(tf.constant(keys[IDS[i : i + 8]]), tf.constant(TARGETS[i : i + 8]))
    return model


@each_kind
@each_optimizer
def test_fit_and_loops_give_the_same_model(case, keys):
    expected = state(run_loop(case, keys, decorate=lambda step: step), keys)
    others = {
        "tf.function": run_loop(case, keys, decorate=tf.function),
        "fit": fit(case, keys),
        "fit eagerly": fit(case, keys, run_eagerly=True),
        "steps_per_execution": fit(case, keys, steps_per_execution=5),
    }
    for way, model in others.items():
        np.testing.assert_allclose(state(model, keys), expected, rtol=0, atol=1e-6, err_msg=way)


@each_kind
@each_optimizer
def test_a_saved_model_goes_on_as_if_never_stopped(case, keys, tmp_path):
    straight = fit(case, keys)
    straight.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert type(loaded.optimizer) is case.ours
    for model in (straight, loaded):
        model.fit(keys[IDS], TARGETS, batch_size=8, shuffle=False, verbose=0)
    np.testing.assert_array_equal(state(loaded, keys), state(straight, keys))


@each_optimizer
def test_config_round_trips(case):
    optimizer = case.ours(**case.arguments, clipnorm=2.0, name="named")
    for copy in (
        case.ours.from_config(optimizer.get_config()),
        keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(optimizer)),
        keras.optimizers.get(keras.optimizers.serialize(optimizer)),
    ):
        assert type(copy) is case.ours
        assert copy.get_config() == optimizer.get_config()


def train_with_threads(num_threads):
    optimizers = [case.ours(**case.arguments, global_clipnorm=100.0) for case in OPTIMIZERS]
    optimizers += [case.ours(**case.arguments) for case in OPTIMIZERS]
    configs = json.dumps([keras.saving.serialize_keras_object(o) for o in optimizers])
    script = pathlib.Path(__file__).with_name("print_digests.py")
    command = [sys.executable, str(script), str(num_threads), configs]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


def test_any_number_of_threads_gives_the_same_bits():
    digests = train_with_threads(1)
    assert len(digests) == 2 * len(OPTIMIZERS)
    assert train_with_threads(8) == digests
