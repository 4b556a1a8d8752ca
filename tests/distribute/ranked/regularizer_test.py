"""`embeddings_regularizer` on all ranks, beside one plain Keras process with the whole batches."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.layers import DistributedEmbedding

TABLES = [(50, 6, "l2"), (7, 4, keras.regularizers.L1L2(0.002, 0.05)), (30, 6, None), (3, 2, "l1")]
BATCH, STEPS = 12, 4  # a multiple of each number of ranks
PLACEMENTS = {
    "whole": {},
    "columns": {"column_slice_threshold": 20},
    "rows": {"row_slice_threshold": 1},
    "copies": {"data_parallel_threshold": 100000},
    "mixed": {"row_slice_threshold": 150, "data_parallel_threshold": 20},
    "whole_batches": {"dp_input": False},
}


def make_layer(table):
    rows, width, regularizer = TABLES[table]
    start = keras.initializers.RandomUniform(-1, 1, seed=table)
    return keras.layers.Embedding(
        rows, width, start, embeddings_regularizer=regularizer, name=f"table_{table}"
    )


def make_data():
    """Ids of the first rows alone, and targets.

    Those of the table without a regularizer differ in a batch: of repeated ones Keras' Adam makes
    more than their dense gradient does.
    """
    random = np.random.default_rng(2)
    ids = [random.integers(0, min(rows, 9), STEPS * BATCH) for rows, _, _ in TABLES]
    ids[2] = np.concatenate([random.permutation(TABLES[2][0])[:BATCH] for _ in range(STEPS)])
    return ids, random.normal(size=(STEPS * BATCH, 1)).astype(np.float32)


def head():
    return keras.layers.Dense(1, kernel_initializer=keras.initializers.HeNormal(seed=0))


@functools.cache
def train_plainly(name):
    """Rows after a training of plain Keras, and the loss of each step."""
    layers, same = ([make_layer(table) for table in range(len(TABLES))] for _ in range(2))
    spread = DistributedEmbedding(same)
    spread.build()
    for layer, start in zip(layers, spread.get_weights(all_ranks=True), strict=True):
        layer.build()
        layer.set_weights([start])
    inputs = [keras.Input((), dtype="int64") for _ in TABLES]
    rows = [layer(each) for layer, each in zip(layers, inputs, strict=True)]
    model = keras.Model(inputs, head()(keras.layers.Concatenate()(rows)))
    losses = train(model, getattr(keras.optimizers, name)(0.05), range(len(TABLES)), BATCH)
    return [layer.get_weights()[0] for layer in layers], losses


def train(model, optimizer, own, share, dp_input=True):
    """Trains this rank's share of each batch; returns the loss of each step."""
    model.compile(optimizer, "mse")
    ids, targets = make_data()
    losses = []
    for first in range(0, STEPS * BATCH, BATCH):
        begin = first + (ksd.rank() * share if share < BATCH else 0)
        mine = slice(begin, begin + share)
        seen = mine if dp_input else slice(first, first + BATCH)
        model.reset_metrics()
        losses.append(model.train_on_batch([ids[i][seen] for i in own], targets[mine]))
    return losses


@pytest.mark.parametrize(
    ("placement", "name"), [*((each, "SGD") for each in PLACEMENTS), ("mixed", "Adam")]
)
def test_trains_as_one_process_of_keras_does(placement, name):
    layer = DistributedEmbedding(
        [make_layer(table) for table in range(len(TABLES))], **PLACEMENTS[placement]
    )
    inputs = [keras.Input((), dtype="int64") for _ in layer.own_inputs]
    rows = layer(inputs)
    model = keras.Model(inputs, head()(keras.layers.Concatenate()(rows)))
    optimizer = ksd.DistributedOptimizer(getattr(keras_sparse.optimizers, name)(0.05))
    share = BATCH // ksd.size()
    losses = train(model, optimizer, layer.own_inputs, share, layer.dp_input)
    expected, expected_losses = train_plainly(name)
    for given, wanted in zip(layer.get_weights(all_ranks=True), expected, strict=True):
        np.testing.assert_allclose(given, wanted, rtol=2e-5, atol=3e-6)
    of_ranks = np.mean(gather_objects([float(loss) for loss in losses], "losses"), axis=0)
    np.testing.assert_allclose(of_ranks, expected_losses, rtol=1e-4)


def train_on_uneven_batches(layer, optimizer, batches, callbacks=()):
    """The history, and the loss of an evaluation after it."""
    inputs = keras.Input((), dtype="int64")
    rows = layer([inputs])[0] if isinstance(layer, DistributedEmbedding) else layer(inputs)
    model = keras.Model(inputs, head()(rows))
    model.compile(optimizer, "mse", run_eagerly=True)
    fit = {"epochs": 2, "shuffle": False, "verbose": 0, "callbacks": list(callbacks)}
    history = model.fit(batches, validation_data=batches, **fit).history
    model.evaluate(batches, verbose=0)
    return {**history, "evaluated": ksd.average_metrics(model)["loss"]}


# 23 samples in batches of 5: no part of 2, 3 or 4 ranks is as large as the others, and the last
# batch has 3 samples, which is fewer than 4 ranks.
@pytest.mark.parametrize("placement", ["columns", "rows", "copies"])
def test_uneven_batches_count_once(placement):
    ids = np.random.default_rng(4).integers(0, 9, 23)
    batches = tf.data.Dataset.from_tensor_slices((ids, np.cos(ids)[:, None])).batch(5)
    plain = keras.layers.Embedding(20, 4, embeddings_regularizer="l2")
    plain.build()
    plain.set_weights([np.random.default_rng(5).normal(size=(20, 4))])
    layer = DistributedEmbedding([plain.from_config(plain.get_config())], **PLACEMENTS[placement])
    layer.build()
    layer.set_weights(plain.get_weights())
    given = train_on_uneven_batches(
        layer,
        ksd.DistributedOptimizer(keras_sparse.optimizers.SGD(0.1)),
        ksd.shard(batches, weigh_samples=True),
        [ksd.MetricAverage()],
    )
    expected = train_on_uneven_batches(plain, keras.optimizers.SGD(0.1), batches)
    rows = layer.get_weights(all_ranks=True)[0]
    np.testing.assert_allclose(rows, plain.get_weights()[0], rtol=1e-5, atol=1e-6)
    assert set(given) == set(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(given[name], values, rtol=1e-5, err_msg=name)


def test_a_cut_table_takes_sums_over_elements_alone():
    layers = [
        keras.layers.Embedding(
            20, 8, embeddings_regularizer=keras.regularizers.OrthogonalRegularizer(), name="own"
        )
    ]
    # Without options it is cut too, as one table is not enough for two ranks.
    for options in [{}, {"column_slice_threshold": 40}, {"row_slice_threshold": 1}]:
        with pytest.raises(ValueError, match=r"must be L1, L2 or L1L2.*'own', cut into \d parts"):
            DistributedEmbedding(layers, **options)
    DistributedEmbedding(layers, data_parallel_threshold=1000)
    DistributedEmbedding(layers, column_slice_threshold=20 * 8)


def test_the_loss_of_a_part_counts_for_all_ranks():
    layer = DistributedEmbedding(
        [keras.layers.Embedding(8, 4, "ones", embeddings_regularizer="l2")],
        row_slice_threshold=1,
    )
    layer([tf.constant([1])])
    losses = gather_objects([float(loss) for loss in layer.losses], "losses")
    np.testing.assert_allclose(np.mean([sum(each) for each in losses]), 0.01 * 32, rtol=1e-6)
