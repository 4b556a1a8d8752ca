"""Training of SparseOperationKit's layers by sparse rows, weighted ones, and lists of keys."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse.layers import All2AllDenseEmbedding
from keras_sparse.layers import All2AllSparseEmbedding

SAMPLES, SLOTS, MOST = 5, 3, 4
FIRST_KEY, NUM_KEYS, WIDTH = -6, 12, 4
LEARNING_RATE = 0.5


def batches(num_steps=4):
    """Keys and weights by slot and place, where a weight of zero is a place without a key."""
    random = np.random.default_rng(4)
    for _ in range(num_steps):
        keys = FIRST_KEY + random.integers(0, NUM_KEYS, (SAMPLES * SLOTS, MOST))
        is_there = random.random(keys.shape) < 0.5
        weights = np.where(is_there, random.uniform(0.5, 2, keys.shape), 0)
        yield keys, weights, random.normal(size=(SAMPLES, SLOTS, WIDTH))


def as_sparse(values, is_there):
    return tf.SparseTensor(np.argwhere(is_there), values[is_there], is_there.shape)


def train_in_numpy(rows, combiner, is_weighted):
    """SGD of the sum of `grads * pooled`, in float64: the gradient of a row is a sum of those."""
    for keys, weights, grads in batches():
        weights = weights if is_weighted else (weights > 0).astype(float)
        sizes = {"sum": np.ones(len(keys)), "mean": weights.sum(1)}
        sizes["sqrtn"] = np.sqrt((weights**2).sum(1))
        parts = weights / np.where(sizes[combiner] > 0, sizes[combiner], 1)[:, np.newaxis]
        of_places = parts[:, :, np.newaxis] * grads.reshape(-1, 1, WIDTH)
        gradient = np.zeros_like(rows)
        np.add.at(gradient, keys - FIRST_KEY, of_places)
        rows = rows - LEARNING_RATE * gradient
    return rows


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_trains_by_sparse_rows_of_slots(combiner, is_weighted):
    layer = All2AllSparseEmbedding(combiner, 50, WIDTH, SLOTS, MOST, seed=1)
    every_key = tf.range(FIRST_KEY, FIRST_KEY + NUM_KEYS, dtype=tf.int64)
    read = All2AllSparseEmbedding("sum", 50, WIDTH, 1, seed=1)
    first = np.float64(read(every_key[:, tf.newaxis])[:, 0])
    optimizer = keras_sparse.optimizers.SGD(LEARNING_RATE)

    @tf.function(autograph=False)
    def step(keys, weights, grads):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(keys, weights) * grads)
        variables = layer.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)

    layer.build()
    optimizer.build(layer.trainable_variables)
    for keys, weights, grads in batches():
        is_there = weights > 0
        given = as_sparse(weights.astype("float32"), is_there) if is_weighted else None
        step(as_sparse(keys, is_there), given, grads.astype("float32"))
    (table,) = layer.trainable_variables
    found = keras_sparse.ops.embedding_lookup(table, every_key)
    expected = train_in_numpy(first, combiner, is_weighted)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(expected - first).max() > 0.5


def test_lists_of_any_length_are_prefetched(tmp_path):
    """With a model for which a sample is a key, in batches of other lengths."""
    random = np.random.default_rng(1)
    lengths = [8, 8, 3, 8, 5, 8, 1, 8]
    batches = [
        (random.integers(-9, 9, each), random.normal(size=(each, 1)).astype("float32"))
        for each in lengths
    ]
    signature = (tf.TensorSpec((None,), tf.int64), tf.TensorSpec((None, 1), tf.float32))
    dataset = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=signature)
    predictions = []
    for mode in (None, "exact"):
        keys = keras.Input((), dtype="int64")
        storage = keras_sparse.StorageOption("DRAM_SSDHASH", str(tmp_path / str(mode)), [512])
        layer = All2AllDenseEmbedding(50, WIDTH, 1, 1, True, seed=1, storage=storage)
        outputs = keras.layers.Dense(1, kernel_initializer="ones")(layer(keys))
        model = keras.Model(keys, outputs)
        model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse")
        staged = dataset
        if mode is not None:
            staged = keras_sparse.data.prefetch_lookups(dataset, model, capacity=2, mode=mode)
        model.fit(staged, epochs=2, steps_per_epoch=4, shuffle=False, verbose=0)
        predictions.append(model.predict(np.arange(-9, 9), verbose=0))
    np.testing.assert_array_equal(predictions[1], predictions[0])
    (stats,) = layer.stats().values()
    assert stats["prefetch"]["staged"] > 0
