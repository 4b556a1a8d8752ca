"""The layer in everything that Keras trains a model by."""

import gc
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
from keras_sparse.layers import Embedding

IDS = np.random.default_rng(0).integers(0, 30, (24, 3))
TARGETS = np.random.default_rng(1).normal(size=(24, 1)).astype("float32")


class Subclassed(keras.Model):
    def __init__(self, input_dim, **kwargs):
        super().__init__(**kwargs)
        self.embedding = Embedding(input_dim, 4, "mean", seed=1)
        self.dense = keras.layers.Dense(1, kernel_initializer="ones")

    def call(self, inputs):
        return self.dense(self.embedding(inputs))


def sequential(input_dim):
    return keras.Sequential(
        [
            keras.Input((3,), dtype="int64"),
            Embedding(input_dim, 4, "mean", seed=1),
            keras.layers.Dense(1, kernel_initializer="ones"),
        ]
    )


def functional(input_dim):
    inputs = keras.Input((3,), dtype="int64")
    return keras.Model(inputs, sequential(input_dim)(inputs))


def around_a_subclassed_model(input_dim):
    inputs = keras.Input((3,), dtype="int64")
    return keras.Model(inputs, Subclassed(input_dim)(inputs))


def trained_with(model, **options):
    model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse", **options)
    model.fit(IDS, TARGETS, batch_size=8, epochs=2, shuffle=False, verbose=0)
    return model(IDS)


def in_steps(model, step):
    """Takes the steps of `trained_with`, one by one."""
    for _ in range(2):
        for first in range(0, 24, 8):
            step(tf.constant(IDS[first : first + 8]), tf.constant(TARGETS[first : first + 8]))
    return model(IDS)


def trained_by_hand(model, wrap):
    """In a loop with a tape."""
    optimizer = keras_sparse.optimizers.Adagrad(0.1)

    @wrap
    def step(ids, targets):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(ids) - targets) ** 2)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    return in_steps(model, step)


def trained_on_batches(model):
    model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse")
    return in_steps(model, model.train_on_batch)


@pytest.fixture(scope="module")
def expected():
    """Predictions of a subclassed model that `fit` has trained, by its `input_dim`."""
    return {input_dim: trained_with(Subclassed(input_dim)) for input_dim in (30, None)}


BITS, SUMS = {"rtol": 0}, {"rtol": 1e-5, "atol": 1e-6}


@pytest.mark.parametrize(
    ("train", "input_dim", "precision"),
    [
        (lambda dim: trained_with(sequential(dim)), None, BITS),
        (lambda dim: trained_with(functional(dim)), 30, BITS),
        (lambda dim: trained_with(around_a_subclassed_model(dim)), None, BITS),
        (lambda dim: trained_with(Subclassed(dim), steps_per_execution=3), 30, BITS),
        (lambda dim: trained_with(Subclassed(dim), jit_compile=False), None, BITS),
        (lambda dim: trained_on_batches(Subclassed(dim)), None, BITS),
        # TensorFlow may add up the dense part in another order.
        (lambda dim: trained_with(Subclassed(dim), run_eagerly=True), 30, SUMS),
        (lambda dim: trained_by_hand(Subclassed(dim), tf.function), None, {"rtol": 1e-5}),
        (lambda dim: trained_by_hand(Subclassed(dim), lambda step: step), 30, {"rtol": 1e-5}),
    ],
)
def test_every_way_to_train_gives_the_same_model(train, input_dim, precision, expected):
    np.testing.assert_allclose(train(input_dim), expected[input_dim], **precision)


@pytest.mark.parametrize("input_dim", [30, None])
def test_a_tape_outside_of_a_function_sees_through_it(input_dim):
    layer = Embedding(input_dim, 2)
    layer.build()
    read = tf.function(layer)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(read(tf.constant([7, 7], tf.int64)))
    (slices,) = tape.gradient(loss, layer.trainable_variables)
    np.testing.assert_array_equal(slices.indices, [7, 7])
    np.testing.assert_array_equal(slices.values, np.ones((2, 2)))


def test_trains_when_it_is_built_inside_the_function():
    layer = Embedding(None, 2, "sum", "zeros")
    optimizer = keras_sparse.optimizers.SGD(1.0)

    @tf.function
    def step(ids):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(ids))
        optimizer.apply(tape.gradient(loss, layer.trainable_variables), layer.trainable_variables)

    step(tf.constant([[1, 2]]))
    step(tf.constant([[1, 1]]))
    np.testing.assert_array_equal(layer(np.array([[1], [2]])), [[-3, -3], [-1, -1]])


@pytest.mark.parametrize("combiner", [None, "sum"])
def test_gradients_of_several_calls_add_up(combiner):
    layer = Embedding(5, 1, combiner, "zeros")
    left, right = keras.Input((2,), dtype="int64"), keras.Input((1,), dtype="int64")
    outputs = keras.ops.sum(layer(left), 1) + 10.0 * keras.ops.sum(layer(right), 1)
    model = keras.Model([left, right], outputs)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model([np.array([[1, 2]]), np.array([[1]])]))
    grads = tape.gradient(loss, model.trainable_variables)
    keras_sparse.optimizers.SGD(1.0).apply(grads, model.trainable_variables)
    np.testing.assert_array_equal(layer.get_weights()[0][:, 0], [0, -11, -1, 0, 0])


def test_a_gather_of_the_outputs_has_gradients():
    layer = Embedding(5, 1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(layer(np.array([4, 3, 2])), [0, 0, 2]))
    (slices,) = tape.gradient(loss, layer.trainable_variables)
    np.testing.assert_array_equal(tf.convert_to_tensor(slices)[:, 0], [0, 0, 1, 0, 2])


def test_a_frozen_layer_stays_and_an_unfrozen_one_moves():
    model = sequential(30)
    embedding = model.layers[0]
    embedding.trainable = False
    assert [variable.name for variable in model.trainable_variables] == ["kernel", "bias"]
    trained_with(model, run_eagerly=True)
    before = embedding.get_weights()[0]
    trained_with(model, run_eagerly=True)
    np.testing.assert_array_equal(embedding.get_weights()[0], before)
    embedding.trainable = True
    trained_with(model, run_eagerly=True)
    assert (embedding.get_weights()[0] != before).any()


def test_a_layer_made_frozen_can_be_unfrozen():
    layer = Embedding(5, 1, trainable=False)
    layer.build()
    assert layer.trainable_variables == []
    assert layer.non_trainable_variables == [layer.embeddings]
    layer.trainable = True
    assert layer.trainable_variables == [layer.embeddings]


def test_a_clone_has_a_table_of_its_own():
    model = functional(None)
    trained_with(model, run_eagerly=True)
    clone = keras.models.clone_model(model)
    (table,) = clone.trainable_variables[:1]
    assert table.num_rows == 0
    trained_with(clone, run_eagerly=True)
    checks.assert_same_tables(table, model.trainable_variables[0])


def test_a_table_goes_with_its_model():
    layer = Embedding(5, 1)
    layer(np.array([1]))
    table = weakref.ref(layer.embeddings)
    del layer
    gc.collect()
    assert table() is None


@pytest.mark.parametrize(
    ("input_dim", "optimizer"), [(30, "sgd"), (None, "sgd"), (None, "adam"), (None, "ftrl")]
)
def test_names_what_to_use_in_place_of_a_stock_optimizer(input_dim, optimizer):
    model = functional(input_dim)
    before = model(IDS)
    model.compile(optimizer, loss="mse", run_eagerly=input_dim is None)
    with pytest.raises(TypeError, match=r"keras_sparse\.optimizers.*\.from_keras` turns one into"):
        model.fit(IDS, TARGETS, verbose=0)
    np.testing.assert_array_equal(model(IDS), before)
    model.compile(keras_sparse.optimizers.from_keras(optimizer), loss="mse", run_eagerly=True)
    model.fit(IDS, TARGETS, verbose=0)
    assert np.any(model(IDS) != before)
