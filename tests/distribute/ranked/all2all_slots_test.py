"""Slots of any number of keys over ranks: pooled and trained as numpy does with all of them."""

import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
import slot_cases as cases
from keras_sparse.layers import All2AllSparseEmbedding
from keras_sparse.layers import Embedding

SLOTS, MOST, WIDTH = 3, 4, 5
KEYS = np.arange(-9, 9)
LEARNING_RATE = 0.5


def draw_batches(step):
    """Keys, weights and gradients of each rank, which differ in size: some have no sample."""
    random = np.random.default_rng(step)
    for rank in range(ksd.size()):
        num_samples = (rank + step) % 3 * 2
        yield (
            *cases.draw(random, KEYS, num_samples * SLOTS, MOST),
            random.normal(size=(num_samples * SLOTS, WIDTH)).astype("float32"),
        )


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize(
    ("convert", "is_weighted"),
    [(cases.as_sparse, True), (cases.as_sparse, False), (cases.as_ragged, True)],
    ids=["sparse, weighted", "sparse", "ragged, weighted"],
)
def test_pools_and_trains_slots_like_numpy(convert, is_weighted, combiner):
    layer = All2AllSparseEmbedding(combiner, 50, WIDTH, SLOTS, MOST, seed=2)
    # Gradients are averaged over ranks.
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.SGD(LEARNING_RATE * ksd.size()))
    first = rows = np.float64(Embedding(None, WIDTH, seed=2)(KEYS))
    num_empty = 0
    for step in range(1, 6):
        gradient = np.zeros_like(rows)
        for rank, (keys, weights, grads) in enumerate(draw_batches(step)):
            is_there = weights > 0
            num_empty += (~is_there.any(1)).sum()
            places = keys - KEYS[0]
            parts = cases.shares(weights if is_weighted else is_there.astype(float), combiner)
            gradient += cases.gradient_of_rows(rows, places, parts, grads)
            if rank == ksd.rank():
                inputs = [convert(keys, is_there)]
                inputs += [convert(weights.astype("float32"), is_there)] * is_weighted
                own, own_grads = cases.pool(rows, places, parts), grads
        with tf.GradientTape() as tape:
            pooled = layer(*inputs)
            loss = tf.reduce_sum(tf.reshape(pooled, (-1, WIDTH)) * own_grads)
        np.testing.assert_allclose(pooled, own.reshape(-1, SLOTS, WIDTH), atol=1e-5)
        variables = layer.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)
        rows = rows - LEARNING_RATE * gradient
    assert num_empty > 0
    assert np.abs(rows - first).max() > 0.5
    for keys, records in layer.tables[0].export():
        assert set(keys % ksd.size()) == {ksd.rank()}
        np.testing.assert_allclose(records, rows[keys - KEYS[0]], atol=1e-5)
