import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.layers import DistributedEmbedding

IS_LAST = ksd.rank() == ksd.size() - 1
NUM_IDS = 12


def two_layers(**options):
    """Layers of equal tables but for their rows, built in the same order on all ranks."""
    layers = [
        DistributedEmbedding(
            [
                keras_sparse.layers.Embedding(9, 8, embeddings_initializer=start, name=f"table{i}")
                for i, start in enumerate((keras.initializers.Constant(value), "zeros"))
            ],
            strategy="basic",
            **options,
        )
        for value in (1.0, 2.0)
    ]
    for layer in layers:
        layer.build()
    return layers


def in_own_order(layers):
    return layers[::-1] if IS_LAST else layers


@pytest.mark.parametrize("options", [{}, {"row_slice_threshold": 1}, {"dp_input": False}])
def test_inside_a_function_ranks_may_call_layers_in_any_order(options):
    layers = two_layers(**options)
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.SGD(1.0))
    ids = tf.zeros((NUM_IDS,), tf.int64)

    @tf.function
    def step():
        rows = {}
        with tf.GradientTape() as tape:
            for layer in in_own_order(layers):
                rows[layer.name] = layer([ids for _ in layer.own_inputs])[0]
            loss = tf.add_n([tf.reduce_sum(rows[each.name]) for each in in_own_order(layers)])
        variables = [v for layer in layers for v in layer.trainable_variables]
        optimizer.apply(tape.gradient(loss, variables), variables)
        return [rows[layer.name] for layer in layers]

    for rows, value in zip(step(), (1.0, 2.0), strict=True):
        np.testing.assert_array_equal(rows, np.full(rows.shape, value))
    # A rank's own samples, or those that are its part of the same whole batch.
    num_gradients = NUM_IDS / (1 if "dp_input" not in options else ksd.size())
    for rows, value in zip(step(), (1.0, 2.0), strict=True):
        np.testing.assert_allclose(rows, np.full(rows.shape, value - num_gradients), rtol=1e-6)


def test_with_lookups_staged_on_some_ranks_too():
    layers = two_layers()
    inputs = keras.Input((2,), dtype="int64")
    model = keras.Model(inputs, [layer([inputs, inputs])[0] for layer in layers])
    ids = tf.data.Dataset.range(12).map(lambda n: tf.stack([n % 9, n * 7 % 9])).batch(1)
    ahead = iter(keras_sparse.data.prefetch_lookups(ids, model, capacity=2))

    @tf.function
    def step(ids):
        return {layer.name: layer([ids, ids])[0] for layer in in_own_order(layers)}

    for _ in range(12):
        batch = next(ahead)
        if ksd.rank() > 0:  # what it has not staged
            batch = tf.constant([[8, 8]], tf.int64)
        rows = step(batch)
        for layer, value in zip(layers, (1.0, 2.0), strict=True):
            np.testing.assert_array_equal(rows[layer.name], np.full((1, 2, 8), value))


@pytest.mark.parametrize("options", [{}, {"row_slice_threshold": 1}, {"dp_input": False}])
def test_outside_of_a_function_another_order_is_an_error_on_all(options):
    layers = two_layers(**options)
    ids = tf.zeros((NUM_IDS,), tf.int64)

    def lookup(layer):
        return layer([ids for _ in layer.own_inputs])[0]

    with pytest.raises(tf.errors.FailedPreconditionError, match="in the same order outside of a"):
        lookup(in_own_order(layers)[0])
    for layer, value in zip(layers, (1.0, 2.0), strict=True):  # they go on
        rows = lookup(layer)
        np.testing.assert_array_equal(rows, np.full(rows.shape, value))
    with tf.GradientTape(persistent=True) as tape:
        sums = {layer.name: tf.reduce_sum(lookup(layer)) for layer in layers}
    layer = in_own_order(layers)[0]
    with pytest.raises(tf.errors.FailedPreconditionError, match="in the same order outside of a"):
        tape.gradient(sums[layer.name], layer.trainable_variables)
