import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_sparse.distribute.training.shard import WeightedShards

RNG = np.random.default_rng(1)
X = RNG.random((7, 3)).astype(np.float32)
WEIGHTS = RNG.random(7).astype(np.float32)


def make_model(outputs, eagerly):
    keras.utils.set_random_seed(2)
    x = keras.Input((3,))
    of_samples = keras.layers.Dense(1, name="of_samples")(x)
    of_steps = keras.layers.Reshape((4, 1), name="of_steps")(keras.layers.Dense(4)(x))
    model = keras.Model(x, {"of_samples": of_samples, "of_steps": of_steps}[outputs])
    weighted = ["accuracy", "mse", "auc", "r2_score"] if outputs == "of_samples" else ["mse"]
    model.compile(
        keras.optimizers.SGD(0.1),
        "mse",
        metrics=["mae"],
        weighted_metrics=weighted,
        run_eagerly=eagerly,
    )
    return model


@pytest.mark.parametrize(
    ("outputs", "eagerly"), [("of_samples", False), ("of_samples", True), ("of_steps", True)]
)
def test_keras_takes_them_as_the_tensor_of_their_product(outputs, eagerly):
    y, weights = (np.ones((7, 1)), WEIGHTS)
    if outputs == "of_steps":
        y, weights = np.ones((7, 4, 1)), WEIGHTS[:, np.newaxis]  # which is what Keras wants there
    batches = tf.data.Dataset.from_tensor_slices((X, y, weights)).batch(3)
    results = []
    for type_of in (tf.convert_to_tensor, lambda weights: weights):
        model = make_model(outputs, eagerly)
        data = batches.map(lambda x, y, w: (x, y, WeightedShards(w, 0.7)))
        data = data.map(lambda x, y, w, type_of=type_of: (x, y, type_of(w)))
        history = model.fit(data, epochs=2, shuffle=False, verbose=0).history
        results.append((history, model.evaluate(data, verbose=0), model.get_weights()))
    (history, evaluated, weights), (expected, *others) = results
    assert history == expected
    assert evaluated == others[0]
    for mine, theirs in zip(weights, others[1], strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_are_an_array_and_a_tensor_of_their_product():
    weights = WeightedShards(tf.constant([1.0, 3.0]), 0.5)
    assert weights.shape == (2,)
    assert weights.dtype == tf.float32
    for each in (weights, tf.convert_to_tensor(weights), weights[:]):
        np.testing.assert_array_equal(each, [0.5, 1.5])
    for each in (weights * 2, 2 * weights, tf.constant(2.0) * weights):
        np.testing.assert_array_equal(each, [1, 3])
    assert np.asarray(weights, np.float64).dtype == np.float64
