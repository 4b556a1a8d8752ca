"""A step costs the same exchanges however many tables and inputs there are."""

import collections

import keras
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.layers import group_embedding_scope
from keras_sparse.layers import GroupEmbedding

PLACEMENTS = {"row_slice_threshold": 100, "column_slice_threshold": 50}


def make_layer(num_tables, **options):
    sizes = [(10 + 10 * (i % 3), 4) for i in range(num_tables)]
    tables = [Embedding(*size, "sum") for size in sizes]
    if options.get("dp_input", True):
        tables[-1] = Embedding(None, 4, "mean")
    # Two inputs of each table.
    tables_of_inputs = [*range(num_tables), *range(num_tables)]
    layer = DistributedEmbedding(tables, input_table_map=tables_of_inputs, **options)
    layer.build()
    return layer


def exchanges_of_a_step(layer):
    """How many exchanges of each kind are in the graph of a training step."""
    head = keras.layers.Dense(1)
    head.build((None, 4 * len(layer.templates.input_tables)))
    return exchanges_of_training(layer, head, len(layer.own_inputs))


def exchanges_of_training(layer, head, num_inputs):
    """As `exchanges_of_a_step`, of a layer or model that takes a list of inputs."""
    variables = layer.trainable_variables + head.trainable_variables
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.Adagrad(0.1))
    optimizer.build(variables)

    @tf.function(autograph=False)
    def step(*inputs):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(head(tf.concat(layer(list(inputs)), axis=1)) ** 2)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    inputs = [tf.ones((ksd.size(), 2), tf.int64)] * num_inputs
    step(*inputs)
    graph = step.get_concrete_function(*inputs).graph.as_graph_def()
    # Those of functions that the step calls would count too.
    nodes = [*graph.node, *(node for each in graph.library.function for node in each.node_def)]
    return collections.Counter(node.op for node in nodes if node.op.startswith("Horovod"))


def expected(**counts):
    """One rank exchanges nothing."""
    return counts if ksd.size() > 1 else {}


@pytest.mark.parametrize(
    ("numbers", "options", "counts"),
    [
        # Ids, rows and gradients take one exchange each; copied tables one more.
        ((1, 12), PLACEMENTS, {"HorovodAlltoall": 3}),
        ((2, 10), {"data_parallel_threshold": 1000}, {"HorovodAlltoall": 3, "HorovodAllgather": 1}),
        # Whole batches take one forward and one back.
        ((5, 10), {"dp_input": False}, {"HorovodAlltoall": 2}),
    ],
)
def test_takes_as_many_exchanges_whatever_the_number_of_tables(numbers, options, counts):
    for number in numbers:
        found = exchanges_of_a_step(make_layer(number, **options))
        assert found == expected(**counts, HorovodAllreduce=1)


@pytest.mark.parametrize("in_scope", [False, True])
def test_a_group_takes_those_of_one_layer_whatever_the_widths_and_combiners(in_scope):
    tables = [Embedding(None, 3, "sum"), Embedding(20, 5, "mean"), Embedding(None, 8, "sqrtn")]
    inputs = [keras.Input((2,), dtype="int64") for _ in tables]
    if in_scope:
        with group_embedding_scope():
            rows = [table(ids) for table, ids in zip(tables, inputs, strict=True)]
    else:
        rows = GroupEmbedding(tables)(inputs)
    model = keras.Model(inputs, rows)
    head = keras.layers.Dense(1)
    head.build((None, 3 + 5 + 8))
    found = exchanges_of_training(model, head, len(tables))
    assert found == expected(HorovodAlltoall=3, HorovodAllreduce=1)
