"""Outputs of ranks in one tensor are those of a list, and train the same tables."""

import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from pairwise import each_pair

BATCH, WIDTHS = 6, (8, 2, 4)
PLACES = {
    "whole": {},
    "rows": {"row_slice_threshold": 1},
    "columns": {"column_slice_threshold": 40},
    "copied_in_part": {"data_parallel_threshold": 45},
    "model_parallel": {"dp_input": False},
}


def inputs_of(layer, kind):
    """Ids and weights of this rank's samples, or of all samples for the inputs that it passes."""
    rank = ksd.rank() if layer.dp_input else 0
    random = np.random.default_rng(rank)
    num_samples = BATCH * (1 if layer.dp_input else ksd.size())
    bags = [random.integers(0, 20, (num_samples, 2)) for _ in WIDTHS]
    weights = [tf.constant(random.random((num_samples, 2)), tf.float32) for _ in WIDTHS]
    if kind == "matrix":
        return np.stack([each[:, 0] for each in bags], 1)[:, layer.own_inputs], None
    given = [bags[i] for i in layer.own_inputs]
    if kind == "ragged":
        given = [tf.RaggedTensor.from_tensor(each, [1] * num_samples) for each in given]
    return given, [weights[i] for i in layer.own_inputs] if kind == "weighted" else None


def train(mode, places, kind, is_dynamic, dtype="float32", policy="float32"):
    """Returns outputs, gradients of weights and tables of some steps on this rank, and the types
    of ops.

    Args:
        dtype: String. What outputs are cast to.
        policy: String. The layers' own dtype policy.
    """
    combiner = None if kind == "matrix" else "mean"
    tables = [
        Embedding(None if is_dynamic else 20, width, combiner, seed=i, dtype=policy)
        for i, width in enumerate(WIDTHS)
    ]
    layer = DistributedEmbedding(tables, output_mode="list" if mode is None else mode, **places)
    inputs, weights = inputs_of(layer, kind)
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.Adagrad(0.1))
    layer(inputs, weights=weights)
    optimizer.build(layer.trainable_variables)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            tape.watch(weights or [])
            outputs = layer(inputs, weights=weights)
            outputs = outputs if mode else tf.concat(outputs, -1)
            outputs = tf.cast(outputs, dtype)
            factors = tf.reshape(tf.range(tf.size(outputs)), tf.shape(outputs))
            loss = tf.reduce_sum(outputs * tf.cast(factors, dtype))
        variables = layer.trainable_variables
        grads = tape.gradient(loss, [*variables, *(weights or [])])
        optimizer.apply(grads[: len(variables)], variables)
        return tf.reshape(outputs, (BATCH, -1)), grads[len(variables) :]

    steps = [tf.nest.map_structure(np.array, step()) for _ in range(2)]
    types = [each.type for each in step.get_concrete_function().graph.get_operations()]
    return steps, [checks.table_content(table) for table in layer.tables], types


@pytest.mark.parametrize(
    ("places", "kind", "is_dynamic"),
    [
        ("whole", "matrix", False),
        ("whole", "ragged", True),
        ("rows", "weighted", True),
        ("columns", "ragged", False),
        ("columns", "weighted", False),
        ("copied_in_part", "weighted", False),
        ("model_parallel", "matrix", False),
        ("model_parallel", "weighted", False),
    ],
)
def test_trains_as_a_list_does(places, kind, is_dynamic):
    ends = [train(mode, PLACES[places], kind, is_dynamic) for mode in (None, "concat")]
    tf.nest.map_structure(np.testing.assert_array_equal, ends[0][0], ends[1][0])
    assert ends[0][1] == ends[1][1]
    if places in ("whole", "rows", "columns"):
        assert "ConcatV2" not in ends[1][2]  # one op writes what comes from all ranks


@each_pair(
    mode=[None, "concat"],
    dtype=["float16", "bfloat16"],
    where=[("rows", "weighted"), ("columns", "matrix")],
)
def test_rounded_outputs_train_as_casts_do(mode, dtype, where):
    places, kind = where
    policies = ("float32", f"mixed_{dtype}")
    ends = [train(mode, PLACES[places], kind, False, dtype, each) for each in policies]
    tf.nest.map_structure(np.testing.assert_array_equal, ends[0][0], ends[1][0])
    assert ends[0][1] == ends[1][1]


@pytest.mark.parametrize("places", ["rows", "columns"])
def test_stacked_inputs_have_an_axis(places):
    tables = [Embedding(20, 4, "mean", seed=i) for i in range(3)]
    stacked = DistributedEmbedding(tables, output_mode="stack", **PLACES[places])
    alone = DistributedEmbedding(
        [Embedding(20, 4, "mean", seed=i) for i in range(3)], **PLACES[places]
    )
    inputs, _ = inputs_of(stacked, "dense")
    np.testing.assert_array_equal(stacked(inputs), tf.stack(alone(inputs), axis=1))
