"""How many updates rows fetched ahead over ranks may have missed, and when none are used."""

import time

import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.data import prefetch_lookups
from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from prefetch_on_ranks import model_around


# Each pair at least once. A static table of one column is on one rank, a dynamic one on all.
@pytest.mark.parametrize(
    ("mode", "capacity", "num_rows", "others_every"),
    [
        ("stale", 2, None, None),
        ("stale", 4, 10_000, 5),
        ("stale", "auto", None, 5),
        ("exact", 2, None, 5),
        ("exact", 4, 10_000, None),
        ("exact", "auto", None, None),
    ],
)
def test_rows_miss_as_many_updates_as_the_statistics_say(mode, capacity, num_rows, others_every):
    layer = DistributedEmbedding([Embedding(num_rows, 1, embeddings_initializer="zeros")])
    model = model_around(layer, 2)
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.SGD(1.0))
    optimizer.build(model.trainable_variables)
    # Each batch has id 7 and one of its own; a step of all ranks takes 1 from the row of id 7.
    ids = tf.data.Dataset.range(60).map(lambda n: tf.stack([7, 1000 * ksd.rank() + 100 + n]))
    ahead = prefetch_lookups(ids.batch(1), model, 1, capacity, mode)
    most = 1 + (8 if capacity == "auto" else capacity)
    missed = []

    @tf.function
    def step(batch):
        with tf.GradientTape() as tape:
            rows = layer([batch])[0]
            loss = tf.reduce_sum(rows)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return rows[0, 0, 0]

    for number, batch in enumerate(ahead):
        is_other = ksd.rank() == 0 and others_every and number % others_every == 3
        missed.append(number + int(step(tf.add(batch, [[0, 5000]]) if is_other else batch)))
        assert missed[-1] == 0 or not is_other  # which this rank has not staged
    assert missed == [0] * 60 or mode == "stale"
    assert min(missed) >= 0
    missed = np.max(gather_objects(missed, "missed"), axis=0)  # of any rank's rows
    assert max(missed) <= most
    stats = layer.stats()
    if stats:
        found = next(iter(stats.values()))["prefetch"]
        total = round(found["staleness_mean"] * found["used"])
        assert max(missed) <= found["staleness_max"] <= most
        assert sum(missed) <= total
        # Where others have rows too, those of one without id 7 may have missed more.
        assert total == sum(missed) or (ksd.size() > 1 and num_rows is None)


def test_rows_from_before_new_weights_are_not_used():
    layer = DistributedEmbedding([Embedding(30, 2, embeddings_initializer="zeros")])
    model = model_around(layer)
    ids = tf.data.Dataset.from_tensor_slices(np.arange(8)[:, None]).batch(2)
    ahead = iter(prefetch_lookups(ids, model, capacity=3, mode="stale"))
    rows = [layer([next(ahead)])[0].numpy()]
    time.sleep(0.5)
    layer.set_weights([np.ones((30, 2), np.float32)])
    rows += [layer([batch])[0].numpy() for batch in ahead]
    assert [each.mean() for each in rows] == [0, 1, 1, 1]


@pytest.mark.parametrize(
    "options", [{}, {"row_slice_threshold": 1}, {"column_slice_threshold": 30}]
)
def test_new_weights_are_used_at_once_also_where_other_ranks_set_them_later(options):
    layer = DistributedEmbedding(
        [Embedding(30, 2, embeddings_initializer="zeros") for _ in range(ksd.size())], **options
    )
    model = model_around(layer)
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.SGD(0.0))
    optimizer.build(model.trainable_variables)
    ids = tf.data.Dataset.from_tensor_slices(np.arange(30)[:, None]).batch(1)

    @tf.function
    def step(batch):
        with tf.GradientTape() as tape:
            rows = model(batch)
        optimizer.apply(tape.gradient(rows, model.trainable_variables), model.trainable_variables)
        return rows

    for number, batch in enumerate(prefetch_lookups(ids, model, capacity=4, mode="stale")):
        if number and number % 6 == 0:
            time.sleep(0.1 * ksd.rank())
            layer.set_weights([np.full((30, 2), number // 6, np.float32)] * ksd.size())
        np.testing.assert_array_equal(step(batch), np.full((1, 1), 2 * ksd.size() * (number // 6)))


@pytest.mark.parametrize("frozen", [None, 0])
def test_rows_miss_no_more_updates_where_a_step_has_two_and_a_rank_has_none(frozen):
    layer = DistributedEmbedding(
        [
            Embedding(9, 1, embeddings_initializer="zeros", trainable=table != frozen)
            for table in range(2)
        ]
    )
    layer.build()
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.SGD(1.0))
    optimizer.build(layer.trainable_variables)
    trained = [table for table in range(2) if table != frozen]

    @tf.function
    def train(batch):
        with tf.GradientTape() as tape:
            rows = layer([batch, batch])
            loss = sum(tf.reduce_sum(rows[table]) for table in trained)
        grads = tape.gradient(loss, layer.trainable_variables)
        for _ in range(2):
            optimizer.apply(grads, layer.trainable_variables)
        return [each[0, 0, 0] for each in rows]

    # All ids are one, whose row each update of a table takes 1 from.
    model = model_around(layer)
    ids = tf.data.Dataset.from_tensor_slices(np.full((60, 1), 5)).batch(1)
    num_updates = np.zeros(2)
    # One thread: of "auto" ones there may be two, and a bound of four.
    for batch in prefetch_lookups(ids, model, num_threads=1, capacity=2, mode="stale"):
        missed = num_updates + [float(row) for row in train(batch)]
        assert np.all(missed >= 0)
        assert np.all(missed <= 3)
        num_updates[trained] += 2
