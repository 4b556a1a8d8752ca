"""Ranks that train a model with a part of each batch, beside one that has all of it."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse.distribute as ksd
from keras_sparse.optimizers import split_embedding_variable_from_others
from ranked_training import assert_close
from ranked_training import assert_same_on_all_ranks
from ranked_training import fresh
from ranked_training import make_data
from ranked_training import make_model
from ranked_training import mine
from ranked_training import NUM_STEPS
from ranked_training import OPTIMIZERS
from ranked_training import values_of


def fit(model, optimizer, ids, targets, **arguments):
    model.compile(optimizer, loss="mse", **arguments)
    model.fit(ids, targets, batch_size=len(ids) // NUM_STEPS, shuffle=False, verbose=0)


def loop(model, optimizer, ids, targets, decorate, tape_class=tf.GradientTape):
    @decorate
    def step(batch_ids, batch_targets):
        with tape_class() as tape:
            loss = tf.reduce_mean((model(batch_ids) - batch_targets) ** 2)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))

    for batch in zip(np.split(ids, NUM_STEPS), np.split(targets, NUM_STEPS), strict=True):
        step(*map(tf.constant, batch))


def eager(function):
    return function


def taped():
    return ksd.DistributedGradientTape(tf.GradientTape())


@functools.cache
def trained_on_one_rank(optimizer):
    model = make_model()
    fit(model, fresh(optimizer), *make_data(), run_eagerly=True)
    return values_of(model)


SGD, ADAGRAD, ADAM = OPTIMIZERS
CLIPPING = ("clipnorm", "global_clipnorm", "clipvalue")


@pytest.mark.parametrize(
    ("how", "optimizer"),
    [
        ("fit", SGD),
        ("several steps a call", ADAGRAD),
        ("function", ADAM),
        ("eager", ADAGRAD),
        ("tape", SGD),
        *(("eager fit", fresh(SGD, **{name: 0.05})) for name in CLIPPING),
    ],
)
def test_ranks_with_parts_of_a_batch_do_what_one_does_with_all_of_it(how, optimizer):
    model, data = make_model(), [mine(each) for each in make_data()]
    if how == "tape":
        loop(model, fresh(optimizer), *data, tf.function, taped)
    elif how in ("function", "eager"):
        decorate = eager if how == "eager" else tf.function
        loop(model, ksd.DistributedOptimizer(fresh(optimizer)), *data, decorate)
    else:
        steps = 3 if how == "several steps a call" else 1
        options = {"steps_per_execution": steps, "run_eagerly": how == "eager fit"}
        fit(model, ksd.DistributedOptimizer(fresh(optimizer)), *data, **options)
    assert_close(values_of(model), trained_on_one_rank(optimizer))
    assert_same_on_all_ranks(values_of(model))


def test_follows_schedules_and_callbacks():
    def rate(epoch, rate):
        return rate / (1 + epoch)

    models = make_model(), make_model()
    for model, cut in zip(models, (mine, np.asarray), strict=True):
        optimizer = fresh(ADAGRAD)
        if cut is mine:
            optimizer = ksd.DistributedOptimizer(optimizer)
        model.compile(optimizer, loss="mse", run_eagerly=cut is not mine)
        callback = keras.callbacks.LearningRateScheduler(rate)
        ids, targets = map(cut, make_data())
        arguments = {"batch_size": len(ids) // NUM_STEPS, "shuffle": False, "verbose": 0}
        model.fit(ids, targets, epochs=2, callbacks=[callback], **arguments)
        np.testing.assert_allclose(float(optimizer.learning_rate), 0.15)
        assert int(optimizer.iterations) == 2 * NUM_STEPS
    assert_close(*map(values_of, models))


def adam():
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    return keras.optimizers.Adam(schedule, clipnorm=0.1)


# Sparse gradients of Keras' own layer become dense ones, as SGD makes them on one rank.
@pytest.mark.parametrize(
    ("make_first", "make_optimizer"),
    [
        (lambda: keras.layers.Dense(2), adam),
        (lambda: keras.layers.Embedding(10, 2), lambda: keras.optimizers.SGD(0.1)),
    ],
)
def test_a_model_without_tables_trains_with_a_stock_optimizer(make_first, make_optimizer):
    models = []
    for _ in range(2):
        keras.utils.set_random_seed(1)
        layers = [make_first(), keras.layers.Flatten(), keras.layers.Dense(1)]
        models.append(keras.Sequential([keras.Input((3,), dtype="int64"), *layers]))
    data = make_data()
    distributed = ksd.DistributedOptimizer(make_optimizer())
    fit(models[0], distributed, *map(mine, data), jit_compile=False)
    fit(models[1], make_optimizer(), *data, run_eagerly=True)
    assert_close(*map(values_of, models))


def test_two_optimizers_share_a_loop():
    """One for the tables, one for the rest, in one function."""
    models = make_model(), make_model()
    kinds = ((ksd.DistributedOptimizer, mine), (eager, np.asarray))
    for model, (wrap, cut) in zip(models, kinds, strict=True):
        both = wrap(fresh(ADAGRAD)), wrap(keras.optimizers.Adam(0.01))
        train_apart(model, *both, *map(cut, make_data()))
    assert_close(*map(values_of, models))


def train_apart(model, of_tables, of_others, ids, targets):
    split = split_embedding_variable_from_others(model.trainable_variables)

    @tf.function
    def step(batch_ids, batch_targets):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(batch_ids) - batch_targets) ** 2)
        grads = tape.gradient(loss, list(split))
        of_tables.apply(grads[0], split[0])
        of_others.apply(grads[1][:1], split[1][:1])
        of_others.apply(grads[1][1:], split[1][1:])

    of_others.build(split[1])
    for batch in zip(np.split(ids, NUM_STEPS), np.split(targets, NUM_STEPS), strict=True):
        step(*map(tf.constant, batch))


def test_ranks_may_trace_a_function_at_different_times():
    model, optimizer = make_model(), ksd.DistributedOptimizer(fresh(ADAGRAD))
    traced = []

    @tf.function
    def step(ids):
        traced.append(None)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(ids) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

    step(tf.zeros((1, 3), tf.int64))  # makes variables, for which it is traced twice
    traced.clear()
    for number in range(1, 3):
        step(tf.zeros((1 + number * ksd.rank(), 3), tf.int64))
    assert len(traced) == (0 if ksd.rank() == 0 else 2)
    assert_same_on_all_ranks(values_of(model))
