import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_sparse import EmbeddingVariable
from keras_sparse import optimizers
from keras_sparse.distribute import DistributedOptimizer
from keras_sparse.optimizers import from_keras
from optimizer_cases import make_model
from optimizer_cases import slices

SETTINGS = {
    "SGD": {"momentum": 0.5, "nesterov": True},
    "Adagrad": {"initial_accumulator_value": 0.5, "epsilon": 1e-3},
    "RMSprop": {"rho": 0.5, "momentum": 0.25, "epsilon": 1e-3, "centered": True},
    "Adam": {"beta_1": 0.5, "beta_2": 0.75, "epsilon": 1e-3, "amsgrad": True},
    "AdamW": {"beta_1": 0.5, "beta_2": 0.75, "epsilon": 1e-3, "weight_decay": 0.25},
    "Adamax": {"beta_1": 0.5, "beta_2": 0.75, "epsilon": 1e-3},
    "Nadam": {"beta_1": 0.5, "beta_2": 0.75, "epsilon": 1e-3},
    "Adadelta": {"rho": 0.5, "epsilon": 1e-3},
    "Lion": {"beta_1": 0.5, "beta_2": 0.75},
    "Ftrl": {"learning_rate_power": -0.25, "l1_regularization_strength": 0.5, "beta": 0.125},
}
COMMON = {"learning_rate": 0.125, "name": "mine", "clipnorm": 2.0, "loss_scale_factor": 4.0}


@pytest.mark.parametrize("name", SETTINGS)
def test_keeps_every_setting(name):
    stock = getattr(keras.optimizers, name)(**{**COMMON, **SETTINGS[name]})
    ours = from_keras(stock)
    assert type(ours) is getattr(optimizers, name)
    assert ours.get_config() == stock.get_config()
    assert not ours.built
    ours.build([EmbeddingVariable(3, 2), keras.Variable([1.0])])
    assert not stock.built


@pytest.mark.parametrize("name", SETTINGS)
def test_takes_names_classes_and_configs_as_keras_does(name):
    stock = getattr(keras.optimizers, name)
    assert type(from_keras(name)) is getattr(optimizers, name)
    assert type(from_keras(name.lower())) is getattr(optimizers, name)
    made = stock(0.25, **SETTINGS[name])
    assert from_keras(keras.optimizers.serialize(made)).get_config() == made.get_config()


def test_all_optimizers_of_keras_that_have_a_namesake_are_taken():
    for name in dir(keras.optimizers):
        ours = getattr(optimizers, name, None)
        if isinstance(ours, type) and name not in ("Optimizer", "MultiOptimizer"):
            assert type(from_keras(getattr(keras.optimizers, name)())) is ours


def test_keeps_a_schedule_as_it_is():
    schedule = keras.optimizers.schedules.ExponentialDecay(0.25, decay_steps=1, decay_rate=0.5)
    ours = from_keras(keras.optimizers.SGD(schedule))
    table = EmbeddingVariable(1, 1, initializer="zeros")
    for _ in range(3):
        ours.apply([slices([0], np.ones((1, 1), "float32"))], [table])
    assert table.numpy() == -(0.25 + 0.125 + 0.0625)
    assert ours.get_config()["learning_rate"]["class_name"] == "ExponentialDecay"


class Halving(keras.optimizers.schedules.LearningRateSchedule):
    """Has no config, so that Keras trains with it but cannot save it."""

    def __call__(self, step):
        return tf.pow(0.5, tf.cast(step, "float32"))


def half(value):
    return value / 2


@pytest.mark.parametrize(
    ("rate", "row"),
    [
        (lambda: 0.5, -1),
        (functools.partial(half, 1.0), -1),
        (functools.partial(half, 1.0).__call__, -1),
        (Halving(), -1.5),
    ],
    ids=["lambda", "partial", "method", "schedule"],
)
def test_keeps_a_rate_that_cannot_be_saved(rate, row):
    ours = from_keras(keras.optimizers.SGD(rate))
    table = EmbeddingVariable(1, 1, initializer="zeros")
    for _ in range(2):
        ours.apply([slices([0], np.ones((1, 1), "float32"))], [table])
    assert table.numpy() == row


def test_takes_the_rate_as_it_is_now():
    stock = keras.optimizers.Adam(0.5)
    stock.build([keras.Variable([1.0])])
    stock.learning_rate = 0.25
    ours = from_keras(stock)
    assert float(ours.learning_rate) == 0.25
    ours.learning_rate = 0.125
    assert float(stock.learning_rate) == 0.25


def test_of_a_loss_scale_optimizer_the_inner_one_is_turned():
    stock = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.AdamW(0.25, weight_decay=0.5),
        initial_scale=8.0,
        dynamic_growth_steps=3,
        name="scaled",
    )
    ours = from_keras(stock)
    assert type(ours) is keras.optimizers.LossScaleOptimizer
    assert type(ours.inner_optimizer) is optimizers.AdamW
    assert ours.inner_optimizer.get_config() == stock.inner_optimizer.get_config()
    assert (ours.name, ours.initial_scale, ours.dynamic_growth_steps) == ("scaled", 8.0, 3)
    table = EmbeddingVariable(1, 1, initializer="zeros")
    ours.apply([slices([0], np.full((1, 1), 8.0, "float32"))], [table])
    np.testing.assert_allclose(table.numpy(), [[-0.25]], rtol=1e-5)


@pytest.mark.parametrize(
    "exclude",
    [lambda variables: {"var_names": ["sec"]}, lambda variables: {"var_list": variables[1:]}],
)
def test_keeps_what_is_excluded_from_weight_decay(exclude):
    tables = [EmbeddingVariable(2, 1, initializer="ones", name=n) for n in ("first", "second")]
    stock = keras.optimizers.SGD(0.5, weight_decay=0.5)
    stock.exclude_from_weight_decay(**exclude(tables))
    ours = from_keras(stock)
    ours.apply([slices([0], np.ones((1, 1), "float32"))] * 2, tables)
    np.testing.assert_array_equal(tables[0].numpy(), [[0.25], [0.75]])
    np.testing.assert_array_equal(tables[1].numpy(), [[0.5], [1.0]])


@pytest.mark.parametrize("make", [optimizers.LazyAdam, optimizers.Adam, optimizers.AdamAsync])
def test_ours_come_back_as_they_are(make):
    optimizer = make(0.25)
    assert from_keras(optimizer) is optimizer


@keras.saving.register_keras_serializable(package="tests")
class MyAdam(keras.optimizers.Adam):
    pass


@pytest.mark.parametrize(
    "make",
    [keras.optimizers.Adafactor, keras.optimizers.Lamb, keras.optimizers.Muon, MyAdam],
)
def test_names_an_optimizer_that_has_no_counterpart(make):
    words = "must be one of SGD, Adagrad, .*Ftrl.*MultiOptimizer.*Received: " + make.__name__
    with pytest.raises(NotImplementedError, match=words):
        from_keras(make())
    with pytest.raises(NotImplementedError, match=words):
        from_keras(keras.optimizers.LossScaleOptimizer(make()))


@pytest.mark.parametrize(
    "value", ["no such optimizer", "LazyAdam", 0.1, keras.optimizers.Adam, None]
)
def test_names_what_it_takes_if_it_is_given_something_else(value):
    with pytest.raises(ValueError, match=r"one of SGD, .*Ftrl\. .*by their class\. Received: opt"):
        from_keras(value)


def test_what_it_cannot_do_on_tables_is_refused_when_it_is_built():
    ours = from_keras(keras.optimizers.Adam(use_ema=True))
    with pytest.raises(NotImplementedError, match=r"`use_ema` is not supported.*Adam\.use_ema"):
        ours.build([EmbeddingVariable(3, 2)])


def test_a_turned_optimizer_trains_and_is_saved(tmp_path):
    ids, targets = np.arange(16).reshape(8, 2) % 5, np.ones((8, 1), "float32")
    model = make_model(from_keras("adam"), 5)
    losses = model.fit(ids, targets, epochs=3, verbose=0).history["loss"]
    assert losses[2] < losses[0]
    model.save(tmp_path / "model.keras")
    assert type(keras.saving.load_model(tmp_path / "model.keras").optimizer) is optimizers.Adam


@pytest.mark.skipif(not hasattr(keras.optimizers, "MultiOptimizer"), reason="asks for Keras 3.15")
def test_turns_the_optimizers_of_a_multi_optimizer():
    stock = keras.optimizers.OptimizerMap(keras.optimizers.AdamW(0.1))
    stock["ads/.*"] = keras.optimizers.Adagrad(0.2)
    stock = keras.optimizers.MultiOptimizer(stock, loss_scale_factor=2.0, name="mine")
    ours = from_keras(stock)
    kinds = [type(ours[key]) for key in ("ads/.*", "others")]
    assert kinds == [optimizers.Adagrad, optimizers.AdamW]
    assert (ours.loss_scale_factor, ours.name) == (2.0, "mine")
    assert from_keras(ours) is ours
    with pytest.raises(ValueError, match=r"optimizers\.from_keras`\. Received: .*MultiOpt"):
        DistributedOptimizer(stock)
    with pytest.raises(NotImplementedError, match="must have an `OptimizerMap`"):
        from_keras(keras.optimizers.MultiOptimizer(lambda variable: None))
