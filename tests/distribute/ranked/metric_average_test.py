import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse.distribute as ksd
from keras_sparse.distribute import collectives

RNG = np.random.default_rng(3)
X = RNG.random((23, 4)).astype(np.float32)
Y = (RNG.random((23, 1)) < 0.4).astype(np.float32)
BATCHES = tf.data.Dataset.from_tensor_slices((X, Y)).batch(5)
METRICS = ("mae", "auc", "precision", "root_mean_squared_error", "r2_score")


class Last(keras.metrics.Metric):
    """A metric that is no sum: how many samples the last batch had."""

    def __init__(self):
        super().__init__(name="last")
        self.last = self.add_variable((), "zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.last.assign(tf.cast(tf.shape(y_true)[0], tf.float32))

    def result(self):
        return self.last.value


def make_model(metrics=METRICS, learning_rate=0.0):
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, "sigmoid")])
    metrics = [
        keras.metrics.get({"class_name": m, "config": {}}) if m == "r2_score" else m
        for m in metrics
    ]
    model.compile(keras.optimizers.SGD(learning_rate), "binary_crossentropy", metrics=metrics)
    return model


def assert_same_on_all_ranks(value):
    first, *others = collectives.gather_objects(value, "value")
    assert all(other == first for other in others)


def test_evaluation_gives_the_metrics_of_all_samples():
    expected = make_model().evaluate(BATCHES, verbose=0, return_dict=True)
    model = make_model()
    seen = {}

    class After(keras.callbacks.Callback):
        def on_test_end(self, logs=None):
            seen.update(logs)

    callbacks = [ksd.MetricAverage(), After()]
    own = model.evaluate(ksd.shard(BATCHES), verbose=0, return_dict=True, callbacks=callbacks)
    assert seen == ksd.average_metrics(model)
    assert set(seen) == set(expected) == set(own)
    for name, value in expected.items():
        np.testing.assert_allclose(seen[name], value, rtol=1e-4, err_msg=name)
    assert_same_on_all_ranks(seen)


@pytest.mark.parametrize("validated", [False, True])
def test_epochs_have_the_metrics_of_all_samples(validated):
    data = {"validation_data": BATCHES.take(3)} if validated else {}
    expected = make_model(["auc"]).fit(BATCHES, epochs=2, shuffle=False, verbose=0, **data).history
    data = {"validation_data": ksd.shard(BATCHES.take(3))} if validated else {}
    callbacks = [ksd.MetricAverage()]
    model = make_model(["auc"])
    found = model.fit(
        ksd.shard(BATCHES), epochs=2, shuffle=False, verbose=0, callbacks=callbacks, **data
    ).history
    assert set(found) == set(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-4, err_msg=name)
    assert_same_on_all_ranks(found)


def test_other_metrics_are_weighted_by_samples():
    model = make_model(["mae"])
    model.compile("sgd", "mse", metrics=[Last(), "mae"])
    model.evaluate(ksd.shard(tf.data.Dataset.from_tensors((X, Y))), verbose=0)
    bounds = np.arange(ksd.size() + 1) * 23 // ksd.size()
    lengths = np.diff(bounds)
    expected = (lengths**2).sum() / 23
    np.testing.assert_allclose(ksd.average_metrics(model)["last"], expected, rtol=1e-6)


def test_ranks_without_samples_do_not_count():
    model = make_model(["mae", "auc"])
    model.evaluate(ksd.shard(tf.data.Dataset.from_tensors((X[:1], Y[:1]))), verbose=0)
    expected = make_model(["mae", "auc"]).evaluate(X[:1], Y[:1], verbose=0, return_dict=True)
    found = ksd.average_metrics(model)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)


def test_early_stopping_ends_all_ranks_in_the_same_epoch():
    model = make_model(["mae"], learning_rate=0.5)
    # Each rank trains a model of its own here, on other samples, and would stop elsewhere.
    x, y = X[ksd.rank() :: ksd.size()], Y[ksd.rank() :: ksd.size()]
    stopping = keras.callbacks.EarlyStopping("loss", min_delta=0.05)
    history = model.fit(x, y, epochs=9, verbose=0, callbacks=[ksd.MetricAverage(), stopping])
    assert 0 < stopping.stopped_epoch < 8
    assert_same_on_all_ranks((stopping.stopped_epoch, history.history))


def test_logs_of_a_step_of_ones_own_are_averaged():
    class Own(keras.Model):
        def train_step(self, data):
            return {"own": tf.constant(float(ksd.rank()))}

    inputs = keras.Input((4,))
    model = Own(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", "mse")
    history = model.fit(X, Y, verbose=0, callbacks=[ksd.MetricAverage()]).history
    assert history == {"own": [(ksd.size() - 1) / 2]}
