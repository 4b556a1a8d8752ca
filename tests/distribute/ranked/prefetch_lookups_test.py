"""`prefetch_lookups` over ranks: bit for bit the training without it, and no rank waits in vain."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.data import prefetch_lookups
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from prefetch_on_ranks import assert_same
from prefetch_on_ranks import BATCHES
from prefetch_on_ranks import make_data
from prefetch_on_ranks import make_model
from prefetch_on_ranks import num_used
from prefetch_on_ranks import prefetch_stats
from prefetch_on_ranks import Reused
from prefetch_on_ranks import ROWS
from prefetch_on_ranks import state_of
from stages import until_used
from table_twins import DIM
from table_twins import small


@functools.cache
def reused(ahead, **kwargs):
    """A model of several tests: with a stage, for which functions are traced anew, or without."""
    return Reused(**kwargs)


def check_fit(data, stage_data=None, epochs=2, layer_options=(), callbacks=(), **kwargs):
    """Trains a model with a stage and one without.

    Args:
        data: `tf.data.Dataset`.
        stage_data: What the first has as `validation_data`, and the other as it is. Defaults to
            `None`, no such data.
        epochs: Integer.
        layer_options: Pairs of names and values.
        callbacks: Of the first.
        kwargs: Of the stage.

    Returns:
        How many lookups that were staged the first has used.
    """
    plain, model = (reused(ahead, **dict(layer_options)).begin() for ahead in (False, True))
    before = prefetch_stats(model)
    fit = {"epochs": epochs, "shuffle": False, "verbose": 0}
    expected = plain.fit(data, **fit, validation_data=stage_data).history
    ahead = prefetch_lookups(data, model, **kwargs)
    num_staged = epochs * len(data)
    if stage_data is not None:
        num_staged += epochs * len(stage_data)
        stage_data = prefetch_lookups(stage_data, model, capacity=2)
    history = model.fit(ahead, **fit, validation_data=stage_data, callbacks=callbacks).history
    assert history == expected
    assert_same(model, plain)
    return num_used(model, num_staged, before)


def short_last_batch(samples):
    whole = make_data(rank=0).unbatch().take(samples)
    whole = whole.apply(tf.data.experimental.assert_cardinality(samples))
    return ksd.shard(whole.batch(5), weigh_samples=True)


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (make_data(), {"epochs": 3, "capacity": 4}),
        (make_data(), {"epochs": 3, "capacity": 4, "layer_options": [("wire_dtype", "bfloat16")]}),
        (make_data(), {"capacity": 2, "layer_options": [("data_parallel_threshold", 10**4)]}),
        (make_data(), {"capacity": 3, "stage_data": make_data(seed=2, batches=4)}),
        (short_last_batch(26), {"capacity": 3}),
        (short_last_batch(27), {"capacity": 3}),
    ],
)
def test_exact_training_is_that_without_it_bit_for_bit(data, options):
    def train(patience):
        return check_fit(data, callbacks=[patience], **options) >= len(data)

    until_used(train)


NEXT, LEAVE_OUT, OTHER = "next", "leave out", "other"


def run(orders, ahead, **kwargs):
    """Trains on batches in this rank's order. Returns the model and its losses.

    Args:
        orders: List of lists, one an epoch, of what a step takes: the `NEXT` batch of the data that
            a stage sees, or of `OTHER` data, or none as the next batch is to `LEAVE_OUT`.
        ahead: Boolean. Whether there is a stage.
    """
    of_tests, losses = reused(ahead, in_steps=True), []
    model, batches = of_tests.begin(), make_data()
    if ahead:
        batches = prefetch_lookups(batches, model, **kwargs)
    others = iter(make_data(seed=1))
    for order in orders:
        coming = iter(batches)
        for kind in order:
            if kind == LEAVE_OUT:
                next(coming)
            else:
                losses.append(of_tests.step(*next(others if kind == OTHER else coming)).numpy())
    return model, losses


ORDERS = {
    "an iterator that is left": [[NEXT] * 5, [NEXT] * BATCHES],
    "ranks that leave out others": [
        [NEXT] * 3 + [LEAVE_OUT] * ksd.rank() + [NEXT] * 6,
        [NEXT] * 7 + [LEAVE_OUT] * (ksd.rank() == 0) + [NEXT] * 3,
    ],
    "batches that only some ranks have staged": [
        [NEXT] * 3 + ([OTHER] if ksd.rank() == 0 else [NEXT]) + [NEXT] * 4,
        [OTHER if (step + ksd.rank()) % 3 == 0 else NEXT for step in range(8)],
    ],
    "a rank whose data ends early": [
        [NEXT] * BATCHES if ksd.rank() else [NEXT] * 6 + [OTHER] * (BATCHES - 6),
        [OTHER] * 2 + [NEXT] * 4,
    ],
}


@functools.cache
def run_plainly(name):
    """The state and losses without a stage."""
    model, losses = run(ORDERS[name], ahead=False)
    return state_of(model), losses


@pytest.mark.parametrize("capacity", [1, 4])
@pytest.mark.parametrize("name", ORDERS)
def test_ranks_that_use_other_batches_get_the_rows_of_their_own(name, capacity):
    plain, expected = run_plainly(name)
    model, losses = run(ORDERS[name], ahead=True, capacity=capacity)
    assert losses == expected
    assert_same(model, plain)


def test_two_live_stages_are_both_used_and_change_nothing():
    models = [reused(ahead, in_steps=True) for ahead in (False, True)]

    def train(patience):
        plain, model = (each.begin() for each in models)
        before = prefetch_stats(model)
        losses = []
        for of_tests in models:
            data = make_data(), make_data(seed=1)
            if of_tests is models[1]:
                data = [prefetch_lookups(each, model, capacity=4) for each in data]
            losses.append([])
            for batch in (batch for pair in zip(*data, strict=True) for batch in pair):
                patience.wait()
                losses[-1].append(of_tests.step(*batch).numpy())
        assert losses[1] == losses[0]
        assert_same(model, plain)
        return num_used(model, 2 * BATCHES, before) > BATCHES  # more than one of them has

    until_used(train)


def test_whole_batches_are_made_ready_too():
    def make():
        keras.utils.set_random_seed(3)
        layers = [Embedding(ROWS, 4, "sum", seed=1), Embedding(ROWS, 2, "mean", seed=2)]
        layer = DistributedEmbedding(layers, dp_input=False)
        inputs = [keras.Input((3,), dtype="int64") for _ in layer.own_inputs]
        rows = layer(inputs)
        model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Concatenate()(rows)))
        model.compile(ksd.DistributedOptimizer(keras_sparse.optimizers.Adagrad(0.1)), loss="mse")
        return model, layer

    (plain, layer), (model, _) = make(), make()
    ids = np.random.default_rng(4).integers(0, ROWS, (2, 4 * ksd.size() * BATCHES, 3))
    inputs = tuple(ids[i] for i in layer.own_inputs)
    data = tf.data.Dataset.from_tensor_slices(inputs).batch(4 * ksd.size())
    labels = tf.data.Dataset.from_tensor_slices(np.ones((4 * BATCHES, 1), np.float32)).batch(4)
    data = tf.data.Dataset.zip((data, labels))
    fit = {"shuffle": False, "verbose": 0}
    plain.fit(data, epochs=2, **fit)
    # The first training is traced without a stage.
    model.fit(data, **fit)
    model.fit(prefetch_lookups(data, model, 1, 2), **fit)
    assert_same(model, plain)


EPOCHS = 2


def data_of_tiers():
    return make_data(batches=24, most_keys=9000)  # each rank has rows for all tiers


@functools.cache
def trained_in_memory(name):
    """A model of this optimizer without a stage, and its history."""
    plain = make_model(None, getattr(keras_sparse.optimizers, name)(0.1), DIM)
    return plain, plain.fit(data_of_tiers(), epochs=EPOCHS, shuffle=False, verbose=0).history


@pytest.mark.parametrize(
    ("storage_type", "name", "capacity"),
    [
        ("DRAM_SSDHASH", "Adam", "auto"),
        ("DRAM_LEVELDB", "Adagrad", 2),
        ("DRAM_PMEM_SSDHASH", "Adagrad", 4),
    ],
)
def test_exact_training_is_that_in_memory_bit_for_bit(storage_type, name, capacity, folder):
    plain, expected = trained_in_memory(name)

    def train(patience):
        optimizer = getattr(keras_sparse.optimizers, name)(0.1)
        storage = small(folder / f"after {patience.seconds} s", storage_type)
        model = make_model(storage, optimizer, DIM)
        ahead = prefetch_lookups(data_of_tiers(), model, capacity=capacity)
        fit = {"epochs": EPOCHS, "shuffle": False, "verbose": 0, "callbacks": [patience]}
        assert model.fit(ahead, **fit).history == expected
        assert_same(model, plain)
        tiers = model.get_layer("tables").stats()["rows"]["tiers"]
        assert list(tiers) == storage_type.split("_")
        # Rows that wait to be written are in no tier, and a step finds them.
        are_used = all(tier["promotions"] > 0 for tier in tiers.values())
        return num_used(model, EPOCHS * len(data_of_tiers())) > 0 and are_used

    until_used(train)
