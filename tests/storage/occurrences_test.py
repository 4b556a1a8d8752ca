"""Filters that count occurrences, whichever way the gradients of a step go to their table."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
from filter_cases import counted
from filter_cases import remembered
from keras_sparse import CBFFilter
from keras_sparse import CounterFilter
from keras_sparse.optimizers import Adagrad

FREQ, DIM = 5, 3
# Of 6 steps: some keys come often, some once, and many several times in a step.
BATCHES = np.random.default_rng(0).zipf(1.5, (6, 8, 4)) % 60 - 20

OPTIMIZERS = {
    "plain": {},
    "clipnorm": {"clipnorm": 0.1},
    "global_clipnorm": {"global_clipnorm": 0.1},
    "clipvalue": {"clipvalue": 0.01},
    "loss_scale_factor": {"loss_scale_factor": 8.0},
    "accumulated": {"gradient_accumulation_steps": 3},
    "accumulated_and_clipped": {"gradient_accumulation_steps": 2, "global_clipnorm": 0.1},
}


def several(**options):
    return keras_sparse.optimizers.MultiOptimizer({".*": Adagrad(0.1, **options)})


def once(layer, ids):
    return [layer(ids)]


def twice(layer, ids):
    """TensorFlow adds the gradients of both lookups up, each of which it has merged."""
    return [layer(ids[:3]), layer(ids[3:])]


def make_layer(combiner, admission):
    return keras_sparse.layers.Embedding(None, DIM, combiner, seed=1, admission=admission)


def train(layer, optimizer, call, decorate=tf.function, clip=lambda grads: grads):
    @decorate
    def step(ids):
        with tf.GradientTape() as tape:
            loss = sum(tf.reduce_sum(rows**2) + tf.reduce_sum(rows) for rows in call(layer, ids))
            loss = optimizer.scale_loss(loss)
        variables = layer.trainable_variables
        optimizer.apply(clip(tape.gradient(loss, variables)), variables)

    layer.build()
    optimizer.build(layer.trainable_variables)
    for ids in BATCHES:
        step(tf.constant(ids))


@pytest.mark.parametrize(("combiner", "call"), [(None, once), ("mean", once), ("sum", twice)])
@pytest.mark.parametrize("options", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_are_counted_each(options, combiner, call):
    layer = make_layer(combiner, CounterFilter(FREQ, "initializer", "occurrences"))
    train(layer, Adagrad(0.1, **options), call)
    waiting, with_rows = counted(BATCHES, FREQ)
    assert waiting
    assert with_rows
    assert remembered(layer.embeddings) == waiting
    assert set(checks.table_content(layer.embeddings)) == with_rows


def test_are_counted_each_by_several_optimizers_and_eagerly():
    layer = make_layer("sum", CounterFilter(FREQ, count="occurrences"))
    train(layer, several(global_clipnorm=0.1), twice, decorate=lambda step: step)
    assert remembered(layer.embeddings) == counted(BATCHES, FREQ)[0]


def test_are_counted_each_where_a_loop_clips_gradients_of_which_it_sees_values_and_ids_alone():
    layer = make_layer("sum", CounterFilter(FREQ, count="occurrences"))
    train(layer, Adagrad(0.1), once, clip=lambda grads: tf.clip_by_global_norm(grads, 0.1)[0])
    assert remembered(layer.embeddings) == counted(BATCHES, FREQ)[0]


def test_are_counted_by_a_bloom_filter():
    layer = make_layer(None, CBFFilter(FREQ, 10_000, 1e-6, "uint8", count="occurrences"))
    train(layer, Adagrad(0.1, clipnorm=0.1), once)
    assert set(checks.table_content(layer.embeddings)) == counted(BATCHES, FREQ)[1]


# Entries beside the sum must not change it. Norms are sums in the order of the entries.
@pytest.mark.parametrize("call", [once, twice])
@pytest.mark.parametrize("options", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_train_rows_as_if_they_were_not_counted(options, call):
    layers = []
    for admission in (None, CounterFilter(FREQ, "initializer", "occurrences")):
        layers.append(make_layer("mean", admission))
        layers[-1].build()
        layers[-1].embeddings.assign(np.unique(BATCHES), np.ones((len(np.unique(BATCHES)), DIM)))
        train(layers[-1], Adagrad(0.1, **options), call)
    keys = np.unique(BATCHES)[:, np.newaxis]
    rows = [layer(keys) for layer in layers]
    np.testing.assert_allclose(*rows, rtol=1e-6)
    if not {"clipnorm", "global_clipnorm"} & set(options):
        checks.assert_same_tables(layers[1].embeddings, layers[0].embeddings)


def test_make_room_for_the_keys_of_the_step_that_they_admit():
    layer = keras_sparse.layers.Embedding(
        None,
        DIM,
        admission=CounterFilter(2, count="occurrences"),
        eviction=keras_sparse.LruEvict(),
        max_rows=2,
    )
    inputs = keras.Input((4,), dtype="int64")
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Flatten()(layer(inputs))))
    model.compile(Adagrad(0.1, clipnorm=1.0), loss="mse")
    for ids, expected in [([1, 1, 2, 2], {1, 2}), ([3, 3, 4, 5], {2, 3})]:
        model.train_on_batch(np.array([ids]), np.ones((1, 1)))
        assert set(checks.table_content(layer.embeddings)) == expected
    with pytest.raises(tf.errors.ResourceExhaustedError, match="2 keys are new"):
        model.train_on_batch(np.array([[3, 3, 4, 5]]), np.ones((1, 1)))
