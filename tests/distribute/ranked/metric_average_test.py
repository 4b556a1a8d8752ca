import functools
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse.distribute as ksd
from keras_sparse.distribute.ranks import collectives

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


def make_model(metrics=METRICS, learning_rate=0.0, run_eagerly=True):
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, "sigmoid")])
    metrics = [
        keras.metrics.get({"class_name": m, "config": {}}) if m == "r2_score" else m
        for m in metrics
    ]
    optimizer = keras.optimizers.SGD(learning_rate)
    model.compile(optimizer, "binary_crossentropy", metrics=metrics, run_eagerly=run_eagerly)
    return model


def assert_same_on_all_ranks(value):
    first, *others = collectives.gather_objects(value, "value")
    assert all(other == first for other in others)


class After(keras.callbacks.Callback):
    """Keeps what callbacks after `MetricAverage` see of an evaluation."""

    def on_test_end(self, logs=None):
        self.logs = dict(logs)


def assert_close(found, expected, rtol=1e-4):
    assert set(found) == set(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=rtol, err_msg=name)


def test_evaluation_gives_the_metrics_of_all_samples():
    expected = make_model().evaluate(BATCHES, verbose=0, return_dict=True)
    model, after = make_model(), After()
    callbacks = [ksd.MetricAverage(), after]
    own = model.evaluate(ksd.shard(BATCHES), verbose=0, return_dict=True, callbacks=callbacks)
    assert after.logs == ksd.average_metrics(model)
    assert set(own) == set(expected)
    assert_close(after.logs, expected)
    assert_same_on_all_ranks(after.logs)
    # A training that moves nothing has the same ones.
    data = ksd.shard(BATCHES)
    found = model.fit(data, shuffle=False, verbose=0, callbacks=[ksd.MetricAverage()]).history
    assert_close({name: values[0] for name, values in found.items()}, expected)


def test_other_metrics_are_weighted_by_samples():
    model = make_model(["mae"])
    model.compile("sgd", "mse", metrics=[Last(), "mae"])
    model.evaluate(ksd.shard(tf.data.Dataset.from_tensors((X, Y))), verbose=0)
    bounds = np.arange(ksd.size() + 1) * 23 // ksd.size()
    lengths = np.diff(bounds)
    expected = (lengths**2).sum() / 23
    np.testing.assert_allclose(ksd.average_metrics(model)["last"], expected, rtol=1e-6)


def test_ranks_without_samples_do_not_count():
    # Eagerly, Keras' own loss of no samples is no number.
    model = make_model(["mae", "auc"], run_eagerly=False)
    model.evaluate(ksd.shard(tf.data.Dataset.from_tensors((X[:1], Y[:1]))), verbose=0)
    expected = make_model(["mae", "auc"]).evaluate(X[:1], Y[:1], verbose=0, return_dict=True)
    assert_close(ksd.average_metrics(model), expected, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:.*Dense variables must be the same on all ranks")
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


# 23 samples in batches of 5: no part of 2, 3 or 4 ranks is as large as the others, and the last
# batch has 3 samples, which is fewer than 4 ranks.
WEIGHTS = RNG.random(23).astype(np.float32)
WEIGHTED = tf.data.Dataset.from_tensor_slices((X, Y, WEIGHTS)).batch(5)


def make_training_model(wrap, **options):
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, "sigmoid")])
    model.layers[-1].kernel_regularizer = keras.regularizers.L2(0.1)
    model.compile(
        wrap(keras.optimizers.SGD(0.5)),
        "binary_crossentropy",
        metrics=["mae", "auc"],
        weighted_metrics=["mse", "precision"],
        **options,
    )
    return model


@functools.cache
def of_one_process(batches):
    """What one process gets: the history and the weights, and those of an evaluation after it."""
    model = make_training_model(lambda optimizer: optimizer, run_eagerly=True)
    fit = {"epochs": 2, "shuffle": False, "verbose": 0}
    history = model.fit(batches, validation_data=batches.take(2), **fit).history
    return history, model.get_weights(), model.evaluate(batches, verbose=0, return_dict=True)


@pytest.mark.parametrize(
    ("batches", "options"),
    [
        (BATCHES, {"run_eagerly": True}),
        (WEIGHTED, {}),
        (WEIGHTED, {"run_eagerly": True}),
        (WEIGHTED, {"steps_per_execution": 2}),
    ],
    ids=["alike", "weighted", "eagerly", "in executions"],
)
def test_weighed_samples_are_reported_as_one_process_does(batches, options):
    history, weights, evaluated = of_one_process(batches)
    model, after = make_training_model(ksd.DistributedOptimizer, **options), After()
    parts = ksd.shard(batches, weigh_samples=True)
    found = model.fit(
        parts,
        epochs=2,
        shuffle=False,
        verbose=0,
        validation_data=ksd.shard(batches.take(2)),
        callbacks=[ksd.MetricAverage()],
    ).history
    assert_close(found, history)
    for mine, theirs in zip(model.get_weights(), weights, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4)
    model.evaluate(parts, verbose=0, callbacks=[ksd.MetricAverage(), after])
    assert_close(after.logs, evaluated)
    assert_same_on_all_ranks((found, after.logs))


def test_three_samples_of_loss_one_have_the_loss_one():
    inputs = keras.Input((1,))
    model = keras.Model(inputs, keras.layers.Dense(1, kernel_initializer="zeros")(inputs))
    model.compile(ksd.DistributedOptimizer(keras.optimizers.SGD(0.0)), "mse")
    samples = tf.data.Dataset.from_tensors((np.ones((3, 1)), np.ones((3, 1))))
    parts = ksd.shard(samples, weigh_samples=True)
    # Once without the callback, so that Keras has a step by the time that it comes.
    model.fit(parts, shuffle=False, verbose=0)
    history = model.fit(parts, shuffle=False, verbose=0, callbacks=[ksd.MetricAverage()]).history
    np.testing.assert_allclose(history["loss"], [1.0], rtol=1e-6)


def test_loss_scaling_keeps_the_gradients_of_weighed_samples():
    kernels = []
    for callbacks in ([], [ksd.MetricAverage()]):
        keras.utils.set_random_seed(7)
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, "sigmoid")])
        optimizer = ksd.DistributedOptimizer(keras.optimizers.SGD(0.5))
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        model.compile(optimizer, "mse", run_eagerly=bool(callbacks))
        parts = ksd.shard(WEIGHTED, weigh_samples=True)
        model.fit(parts, shuffle=False, verbose=0, callbacks=callbacks)
        kernels.append(model.layers[-1].get_weights()[0])
    np.testing.assert_allclose(*kernels, rtol=1e-5)


@pytest.mark.parametrize("is_distributed", [True, False])
def test_warns_of_ranks_that_train_different_models(is_distributed):
    model = make_model()
    optimizer = keras.optimizers.SGD(0.1)
    model.compile(ksd.DistributedOptimizer(optimizer) if is_distributed else optimizer, "mse")
    x = np.full((4, 4), 1.0 + ksd.rank(), "float32")
    ksd.broadcast_variables(model.variables)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(x, np.ones((4, 1)), 2, verbose=0, callbacks=[ksd.MetricAverage()])
    told = [str(each.message) for each in caught if "must be the same on all ranks" in str(each)]
    assert len(told) == (not is_distributed and ksd.size() > 1), told
