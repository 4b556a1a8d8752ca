"""`gradient_accumulation_steps`: several steps are one of the mean of their gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse.optimizers import Adagrad
from keras_sparse.optimizers import Adam
from keras_sparse.optimizers import AdamAsync
from keras_sparse.optimizers import MultiOptimizer
from keras_sparse.optimizers import SGD
from optimizer_cases import CLASSES
from optimizer_cases import KEYS
from optimizer_cases import make_model
from optimizer_cases import make_table
from optimizer_cases import random_rows
from optimizer_cases import read
from optimizer_cases import slices
from optimizer_cases import tables_of

ROWS, STEPS = 8, 3
CLIPS = [{}, {"clipnorm": 0.3}, {"global_clipnorm": 0.3}, {"clipvalue": 0.1}]


def variables_of(keys):
    return [*(make_table(k, random_rows(ROWS, 2)) for k in keys), keras.Variable([[1.0, 2.0]])]


def values_of(variables, keys):
    rows = [read(table, k) for table, k in zip(variables, keys, strict=False)]
    return [*rows, variables[-1].numpy()]


GRAPHS = [(case, "function") for case in CLASSES if case.ours in (Adagrad, AdamAsync)]


@pytest.mark.parametrize(
    ("case", "way"),
    [*((case, "eager") for case in CLASSES), *GRAPHS],
    ids=lambda each: each if isinstance(each, str) else each.ours.__name__,
)
def test_is_one_step_of_all_their_samples(case, way):
    keys = [np.arange(ROWS), KEYS[:ROWS]]
    options = CLIPS[sum(map(ord, case.name)) % len(CLIPS)]
    ours = case.make(gradient_accumulation_steps=STEPS, loss_scale_factor=4.0, **options)
    whole = case.make(loss_scale_factor=4.0, **options)
    accumulated, at_once = variables_of(keys), variables_of(keys)

    def step(ids, values, of_kernel):
        grads = [slices(tf.gather(k, ids), values) for k in keys]
        ours.apply([*grads, of_kernel], accumulated)

    if way == "function":
        step = tf.function(step)
    rng = np.random.default_rng(0)
    for number in range(3):
        ids = rng.integers(0, ROWS, (STEPS, 5))
        values = rng.normal(size=(STEPS, 5, 2)).astype("float32")
        kernels = rng.normal(size=(STEPS, 1, 2)).astype("float32")
        for each in range(STEPS):
            before = values_of(accumulated, keys)
            step(*map(tf.constant, (ids[each], values[each], kernels[each])))
            assert int(ours.iterations) == number + (each == STEPS - 1)
            if each < STEPS - 1:  # nothing changes in between
                for left, right in zip(values_of(accumulated, keys), before, strict=True):
                    np.testing.assert_array_equal(left, right)
        grads = [slices(k[ids.ravel()], values.reshape(-1, 2) / STEPS) for k in keys]
        whole.apply([*grads, kernels.mean(0)], at_once)
        pairs = zip(values_of(accumulated, keys), values_of(at_once, keys), strict=True)
        for left, right in pairs:
            np.testing.assert_allclose(left, right, rtol=1e-5, atol=2e-6)


IDS = np.random.default_rng(3).integers(0, ROWS, (48, 2))
TARGETS = np.random.default_rng(4).normal(size=(48, 1)).astype("float32")


def several(**options):
    return MultiOptimizer({"embeddings": Adagrad(0.1, **options), "others": Adam(0.1, **options)})


def scaled(**options):
    return keras.optimizers.LossScaleOptimizer(several(**options), initial_scale=8.0)


@pytest.mark.parametrize("make", [several, scaled])
def test_small_batches_train_as_large_ones(make):
    models = []
    for steps in (None, STEPS):
        options = {"steps_per_execution": 3} if steps else {"run_eagerly": True}
        model = make_model(make(gradient_accumulation_steps=steps), ROWS, **options)
        size = 12 // (steps or 1)
        model.fit(IDS, TARGETS, batch_size=size, shuffle=False, verbose=0)
        assert int(model.optimizer.iterations) == len(IDS) // 12
        models.append(model)
    for left, right in zip(*map(tables_of, models), strict=True):
        np.testing.assert_allclose(*(read(t, np.arange(ROWS)) for t in (left, right)), atol=1e-6)
    for left, right in zip(*(model.layers[-1].get_weights() for model in models), strict=True):
        np.testing.assert_allclose(left, right, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_what_a_variable_has_waits_for_its_next_gradient():
    table = make_table(np.arange(2), np.zeros((2, 1), "float32"))
    other, kernel = keras.Variable([0.0]), keras.Variable([0.0])
    optimizer = SGD(1.0, gradient_accumulation_steps=2)
    for is_there in (True, False, True, True):
        grads = [slices([1], np.ones((1, 1), "float32")), tf.constant([1.0])]
        grads = grads if is_there else [None, None]
        optimizer.apply([*grads, tf.constant([1.0])], [table, other, kernel])
    # In the second step only the kernel has a gradient, and an update.
    np.testing.assert_array_equal(table.numpy(), [[0], [-1.5]])
    np.testing.assert_array_equal(other.numpy(), [-1.5])
    np.testing.assert_array_equal(kernel.numpy(), [-2])


@pytest.mark.parametrize("make", [lambda **options: SGD(1.0, **options), several])
def test_all_rows_of_an_update_need_room(make):
    table = keras_sparse.EmbeddingVariable(None, 2, max_rows=2)
    kernel = keras.Variable([1.0])
    optimizer = make(gradient_accumulation_steps=2)
    grads = [[slices([i, i + 1], np.ones((2, 2), "float32")), tf.constant([1.0])] for i in (0, 1)]
    optimizer.apply(grads[0], [table, kernel])
    with pytest.raises(tf.errors.ResourceExhaustedError, match="max_rows=2"):
        optimizer.apply(grads[1])
    assert (table.num_rows, kernel.numpy(), int(optimizer.iterations)) == (0, [1], 0)
    optimizer.apply(grads[0])
    assert (table.num_rows, int(optimizer.iterations)) == (2, 1)


@pytest.mark.parametrize("way", ["clear", "erase"])
def test_what_was_accumulated_goes_with_the_rows_that_are_replaced(way):
    layer = keras_sparse.layers.Embedding(None, 2, "sum", "zeros")
    model = keras.Sequential([keras.Input((1,), dtype="int64"), layer])
    model.compile(SGD(0.1, gradient_accumulation_steps=2), loss="mse", run_eagerly=True)

    def train(*keys):
        for key in keys:
            model.train_on_batch(np.array([[key]]), np.ones((1, 2)))

    train(1, 2)
    train(50)
    table = layer.embeddings
    table.clear() if way == "clear" else table.erase([50])
    train(3, 4)
    assert not table.contains([50])[0]
