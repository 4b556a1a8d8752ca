"""Several optimizers on ranks, on some of which one of them has no variable."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.optimizers import Adagrad
from keras_sparse.optimizers import AdamW
from keras_sparse.optimizers import MultiOptimizer
from keras_sparse.optimizers import SGD
from ranked_training import assert_close
from ranked_training import make_data
from ranked_training import mine
from ranked_training import NUM_STEPS

NAMES = ("users", "items", "words")


def make_optimizer(**options):
    schedule = keras.optimizers.schedules.ExponentialDecay(0.3, 2, 0.5)
    optimizers = {
        "users": Adagrad(schedule, clipnorm=0.02),
        "items": SGD(0.3, global_clipnorm=0.01),
        "words": SGD(0.2, momentum=0.5),
        "others": AdamW(0.05, global_clipnorm=0.02),
    }
    return MultiOptimizer(optimizers, **options)


def make_model(optimizer, is_spread, in_graph=False):
    ids = keras.Input((3,), dtype="int64")
    # On two ranks each of two optimizers has a table of one of them alone.
    tables = [Embedding(10, 4, "sum", seed=i, name=name) for i, name in enumerate(NAMES)]
    if is_spread:
        options = {"column_slice_threshold": 10**6, "row_slice_threshold": 10**6}
        pooled = DistributedEmbedding(tables, **options)([ids] * 3)
    else:
        pooled = [table(ids) for table in tables]
    pooled.append(Embedding(10, 2, "mean", seed=4, name="copy")(ids))
    top = keras.layers.Dense(1, kernel_initializer=keras.initializers.GlorotUniform(3))
    model = keras.Model(ids, top(keras.layers.concatenate(pooled)))
    model.compile(optimizer, loss="mse", run_eagerly=not in_graph)
    return model


def train(model, ids, targets, how="fit"):
    if how == "fit":
        size = len(ids) // NUM_STEPS
        model.fit(ids, targets, batch_size=size, shuffle=False, verbose=0)
        return
    variables = model.trainable_variables
    for batch in zip(np.split(ids, NUM_STEPS), np.split(targets, NUM_STEPS), strict=True):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(batch[0]) - batch[1]) ** 2)
            loss = model.optimizer.scale_loss(loss)
        model.optimizer.apply(tape.gradient(loss, variables), variables)


def values_of(model):
    (spread,) = [layer for layer in model.layers if isinstance(layer, DistributedEmbedding)]
    rows = dict(zip(NAMES, spread.get_weights(all_ranks=True), strict=True))
    others = {layer.name: layer.get_weights() for layer in model.layers if layer is not spread}
    return [*rows.values(), *others["copy"], *model.layers[-1].get_weights()]


@functools.cache
def of_one_rank():
    model = make_model(make_optimizer(), is_spread=False)
    train(model, *make_data())
    names = [*NAMES, "copy", model.layers[-1].name]
    return [value for name in names for value in model.get_layer(name).get_weights()]


def scaled(optimizer):
    distributed = ksd.DistributedOptimizer(optimizer)
    return keras.optimizers.LossScaleOptimizer(distributed, initial_scale=4.0)


@pytest.mark.parametrize(("wrap", "how"), [(ksd.DistributedOptimizer, "fit"), (scaled, "eager")])
def test_ranks_do_what_one_does(wrap, how):
    model = make_model(wrap(make_optimizer()), is_spread=True, in_graph=how == "fit")
    train(model, *map(mine, make_data()), how)
    assert_close(values_of(model), of_one_rank())
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    optimizers = [optimizer, *optimizer.optimizers]
    assert [int(each.iterations) for each in optimizers] == [NUM_STEPS] * len(optimizers)


def test_a_checkpoint_of_ranks_goes_on(folder):
    models = [make_model(ksd.DistributedOptimizer(make_optimizer()), True) for _ in range(2)]
    train(models[0], *map(mine, make_data()))
    keras_sparse.saving.save_checkpoint(models[0], folder / "checkpoint")
    keras_sparse.saving.load_checkpoint(models[1], folder / "checkpoint")
    for model in models:
        train(model, *map(mine, make_data()))
        assert {int(each.iterations) for each in model.optimizer.optimizers} == {2 * NUM_STEPS}
        assert model.optimizer["others"] is model.optimizer.inner_optimizer["others"]
    assert_close(*map(values_of, models))


def test_a_key_must_match_a_variable_of_some_rank():
    optimizers = {"users": SGD(0.1), "item": SGD(0.1), "others": SGD(0.1)}
    model = make_model(ksd.DistributedOptimizer(MultiOptimizer(optimizers)), True)
    with pytest.raises(ValueError, match=r"must match a variable.*Received: 'item', of variables"):
        train(model, *map(mine, make_data()))
