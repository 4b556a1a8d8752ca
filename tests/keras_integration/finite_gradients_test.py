import keras
import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
from keras_sparse.optimizers import Adagrad
from keras_sparse.optimizers import Adam
from keras_sparse.optimizers import AdamAsync
from keras_sparse.optimizers import SGD
from optimizer_cases import CLASSES
from optimizer_cases import make_table
from optimizer_cases import PLAIN_ADAM
from optimizer_cases import random_rows
from optimizer_cases import read
from optimizer_cases import slices
from pairwise import each_pair

KEYS = np.array([-5, 2**62, 0])  # the third has no gradient
ONES = np.ones((3, 2), "float32")


def gradient(values):
    return tf.IndexedSlices(tf.constant(values), tf.constant(KEYS[:2]), (2**63 - 1, 2))


def scaled(optimizer, **arguments):
    return keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=4.0, **arguments)


@each_pair(
    decorate=[tf.function, lambda apply: apply],
    where=["table", "kernel"],
    wrong=[np.nan, np.inf],
)
def test_a_step_that_is_not_finite_changes_nothing_but_the_scale(decorate, where, wrong):
    tables = [make_table(KEYS, ONES) for _ in range(2)]
    kernel = keras.Variable([1.0])
    optimizer = scaled(SGD(1.0))
    optimizer.build([*tables, kernel])

    @decorate
    def apply(table_number, kernel_number):
        first = gradient([[4.0, 8.0], [4.0, 4.0]])
        second = gradient([[4.0, 4.0], [0.0, 1.0]])
        second = tf.IndexedSlices(second.values * table_number, second.indices, second.dense_shape)
        optimizer.apply([first, second, kernel_number * tf.ones((1,))])

    numbers = {"table": tf.constant(1.0), "kernel": tf.constant(1.0)}
    apply(*{**numbers, where: tf.constant(wrong)}.values())
    for table in tables:
        np.testing.assert_array_equal(read(table, KEYS), ONES)
    assert kernel.numpy() == [1.0]
    assert optimizer.dynamic_scale.numpy() == 2.0
    assert optimizer.iterations.numpy() == 0

    apply(*numbers.values())
    np.testing.assert_array_equal(read(tables[0], KEYS), [[-1, -3], [-1, -1], [1, 1]])
    assert kernel.numpy() == [0.5]
    assert optimizer.iterations.numpy() == 1


@pytest.mark.parametrize(
    ("case", "decorate"),
    # Steps without a graph are skipped in the same way for all classes.
    [*((case, tf.function) for case in CLASSES), (PLAIN_ADAM, lambda apply: apply)],
    ids=lambda each: getattr(each, "name", None),
)
def test_a_step_that_is_not_finite_leaves_moves_to_be_made_up_for(case, decorate):
    """Rows that wait for their moves, slots and step counts: as if the step had not been."""
    skipping, straight = (make_table(KEYS, ONES) for _ in range(2))
    optimizers = []
    for table in (skipping, straight):
        optimizer = scaled(case.make())
        optimizer.build([table])
        apply = decorate(lambda g, optimizer=optimizer: optimizer.apply([slices(KEYS[:2], g)]))
        apply(tf.constant([[4.0, 2.0], [1.0, -1.0]]))
        for _ in range(3):
            optimizer.apply([slices([], tf.zeros((0, 2)))])
        if table is skipping:
            before = checks.table_content(table)
            apply(tf.constant([[1.0, 1.0], [1.0, np.nan]]))
            assert checks.table_content(table) == before
            optimizer.dynamic_scale.assign(4.0)
        apply(tf.constant([[4.0, 2.0], [1.0, -1.0]]))
        optimizers.append(optimizer.inner_optimizer)
    checks.assert_same_tables(skipping, straight)
    for left, right in zip(*(optimizer.variables for optimizer in optimizers), strict=True):
        np.testing.assert_array_equal(left, right)


each_mixed = pytest.mark.parametrize("dtype_policy", ["mixed_float16"], indirect=True)


@each_mixed
@pytest.mark.parametrize(("make", "input_dim"), [(Adagrad, 50), (Adam, None), (AdamAsync, 50)])
def test_compile_under_mixed_float16_trains(make, input_dim, dtype_policy):
    inputs = keras.Input((2,), dtype="int64")
    layers = [inputs, keras_sparse.layers.Embedding(input_dim, 4), keras.layers.Flatten()]
    model = keras.Sequential([*layers, keras.layers.Dense(1, dtype="float32")])
    model.compile(make(0.1, clipnorm=1.0), loss="mse")
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    ids = np.random.default_rng(0).integers(0, 50, (64, 2))
    history = model.fit(ids, np.ones((64, 1)), batch_size=16, epochs=5, verbose=0).history["loss"]
    assert history[-1] < 0.9 * history[0]


def half_precision_model(layers, optimizer):
    """Of a table by the layers of `layers`: ours, or those of Keras."""
    inputs = keras.Input((2,), dtype="int64")
    rows = keras.layers.Flatten()(layers.Embedding(40, 4, name="table")(inputs))
    kernel = keras.initializers.GlorotUniform(1)
    model = keras.Model(inputs, keras.layers.Dense(1, kernel_initializer=kernel)(rows))
    model.get_layer("table").set_weights([random_rows(40, 4)])
    # The scale doubles at every third step.
    model.compile(scaled(optimizer, dynamic_growth_steps=3), loss="mse", run_eagerly=True)
    return model


@each_mixed
@pytest.mark.parametrize("name", ["Adam", "AdamW", "Nadam", "RMSprop", "SGD"])
def test_trains_as_keras_does_under_mixed_float16(name, dtype_policy):
    case = next(case for case in CLASSES if case.ours.__name__ == name)
    ours = half_precision_model(keras_sparse.layers, case.make())
    reference = half_precision_model(keras.layers, case.make_keras())
    start = random_rows(40, 4)
    rng = np.random.default_rng(0)
    for step in range(7):
        # No id comes twice in a batch: Keras adds gradients up in float16. Later batches have
        # other rows than earlier ones.
        ids = rng.permutation(20)[:16].reshape(8, 2) + 2 * step
        targets = rng.normal(size=(8, 1))
        for model in (ours, reference):
            model.train_on_batch(ids, targets)
    rows, expected = (model.get_layer("table").get_weights()[0] for model in (ours, reference))
    np.testing.assert_allclose(rows, expected, rtol=0, atol=2e-6)
    assert np.abs(expected - start).max() > 1e-3
    assert float(ours.optimizer.dynamic_scale) == float(reference.optimizer.dynamic_scale) == 16.0


def test_checks_a_sparse_gradient_without_its_dense_form():
    optimizer = scaled(SGD(1.0))
    assert optimizer.check_finite([None, gradient([[1.0, 2.0], [3.0, 4.0]]), tf.ones(3)])
    assert not optimizer.check_finite([gradient([[1.0, 2.0], [np.inf, 4.0]]), tf.ones(3)])


def test_keras_optimizers_are_checked_as_before():
    optimizer = scaled(keras.optimizers.SGD(1.0))
    fits = tf.IndexedSlices(tf.ones((1, 2)), tf.constant([1]), tf.constant([2, 2]))
    assert optimizer.check_finite([fits])
    wrong = tf.IndexedSlices([[np.nan, 1.0]], tf.constant([1]), tf.constant([2, 2]))
    assert not optimizer.check_finite([wrong])
