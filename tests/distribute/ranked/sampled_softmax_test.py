"""The sampled softmax over a table that ranks share trains what one process would train."""

import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.ops import sampled_softmax_loss
from pairwise import each_pair

NUM_CLASSES, DIM, NUM_SAMPLED = 20, 4, 8
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(NUM_CLASSES, DIM)).astype(np.float32)
BIASES = RNG.normal(size=(NUM_CLASSES, 1)).astype(np.float32)
PLACES = [
    {},
    {"row_slice_threshold": 1},
    {"column_slice_threshold": 40},
    {"data_parallel_threshold": 200},
]


def batch(rank):
    """Labels and inputs of a rank; the last one has a smaller batch."""
    rng = np.random.default_rng(rank)
    n = 2 if rank == ksd.size() - 1 else 5
    return rng.integers(0, NUM_CLASSES, (n, 1)), np.float32(rng.normal(size=(n, DIM)))


def drawn(labels, seed):
    """Classes drawn uniformly, with how often each label and each of them is expected."""
    classes = np.random.default_rng(seed).choice(NUM_CLASSES, NUM_SAMPLED, replace=False)
    expected = np.float32(NUM_SAMPLED / NUM_CLASSES)
    return classes, np.full(labels.shape, expected), np.full(NUM_SAMPLED, expected)


def trained_alone(seeds):
    """The rows and biases after two steps of one process with the batches of all ranks."""
    weights, biases = tf.Variable(ROWS), tf.Variable(BIASES[:, 0])
    values = [drawn(batch(rank)[0], seed) for rank, seed in enumerate(seeds)]
    for _ in range(2):
        with tf.GradientTape() as tape:
            losses = [
                tf.reduce_mean(
                    tf.nn.sampled_softmax_loss(
                        weights, biases, *batch(rank), NUM_SAMPLED, NUM_CLASSES, 1, values[rank]
                    )
                )
                for rank in range(len(seeds))
            ]
            loss = tf.add_n(losses) / len(losses)
        grads = tape.gradient(loss, [weights, biases])
        weights.assign_sub(0.5 * tf.convert_to_tensor(grads[0]))
        biases.assign_sub(0.5 * tf.convert_to_tensor(grads[1]))
    return weights.numpy(), biases.numpy()


@each_pair(alike=[True, False], place=PLACES, input_dim=[NUM_CLASSES, None])
def test_ranks_train_what_one_process_trains(alike, place, input_dim):
    if input_dim is None and place.keys() & {"data_parallel_threshold"}:
        place = {}  # copies of a dynamic table would not stay the same
    tables = {"items": Embedding(input_dim, DIM), "biases": Embedding(input_dim, 1)}
    layer = DistributedEmbedding(tables, **place)
    layer.build()
    layer.assign(np.arange(NUM_CLASSES), ROWS, table="items")
    layer.assign(np.arange(NUM_CLASSES), BIASES, table="biases")
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.SGD(0.5))
    seeds = [1 if alike else 1 + rank for rank in range(ksd.size())]
    labels, inputs = batch(ksd.rank())
    values = drawn(labels, seeds[ksd.rank()])

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(
                sampled_softmax_loss(
                    (layer, "items"),
                    (layer, "biases"),
                    labels,
                    inputs,
                    NUM_SAMPLED,
                    NUM_CLASSES,
                    sampled_values=values,
                )
            )
        variables = layer.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)

    for _ in range(2):
        step()
    weights, biases = trained_alone(seeds)
    classes = np.arange(NUM_CLASSES)
    np.testing.assert_allclose(layer.find(classes, "items").rows, weights, atol=1e-5)
    np.testing.assert_allclose(layer.find(classes, "biases").rows[:, 0], biases, atol=1e-5)


def test_a_layer_of_several_tables_is_given_with_the_name_of_one():
    layer = DistributedEmbedding({"items": Embedding(9, 4), "biases": Embedding(9, 1)})
    layer.build()
    with pytest.raises(ValueError, match=r"name of a table of layer .*\['items', 'biases'\]"):
        sampled_softmax_loss(layer, None, [[1]], tf.ones((1, 4)), num_sampled=3)
