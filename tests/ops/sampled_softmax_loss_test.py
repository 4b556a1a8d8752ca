"""The loss and its gradients are those of `tf.nn.sampled_softmax_loss` on a table's rows."""

import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse import ops
from pairwise import each_pair

LABELS = np.array([[3, 4], [4, 0], [19, 3], [7, 7]])
INPUTS = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
ROWS = np.random.default_rng(1).normal(size=(20, 5)).astype(np.float32)
BIASES = np.random.default_rng(2).normal(size=20).astype(np.float32)
SAMPLERS = {
    "log_uniform": tf.random.log_uniform_candidate_sampler,
    "uniform": tf.random.uniform_candidate_sampler,
}


def table_of(rows, is_dynamic):
    rows = np.float32(rows)
    table = keras_sparse.EmbeddingVariable(None if is_dynamic else len(rows), rows.shape[1])
    table.import_(np.arange(len(rows)), rows)
    return table


def sampled(name, labels, num_true):
    return SAMPLERS[name](np.int64(labels), num_true, 8, True, 20, seed=3)


@each_pair(
    biased=["table", "tensor", None],
    removes=[True, False],
    num_true=[1, 2],
    sampler=SAMPLERS,
    is_dynamic=[False, True],
)
def test_loss_and_gradients_are_those_of_tensorflow(biased, removes, num_true, sampler, is_dynamic):
    labels = LABELS[:, :num_true]
    values = sampled(sampler, labels, num_true)
    options = {"num_sampled": 8, "num_true": num_true, "sampled_values": values}
    options["remove_accidental_hits"] = removes
    weights, inputs = tf.Variable(ROWS), tf.Variable(INPUTS)
    biases = tf.Variable(np.zeros_like(BIASES) if biased is None else BIASES)
    with tf.GradientTape() as tape:
        expected = tf.nn.sampled_softmax_loss(
            weights, biases, labels, inputs, num_classes=20, **options
        )
    grads = tape.gradient(expected, [weights, biases, inputs])
    table = table_of(ROWS, is_dynamic)
    ours = {"table": table_of(BIASES[:, None], is_dynamic), "tensor": biases, None: None}[biased]
    with tf.GradientTape() as tape:
        loss = ops.sampled_softmax_loss(table, ours, labels, inputs, num_classes=20, **options)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    found = tape.gradient(loss, [table, inputs] if ours is None else [table, inputs, ours])
    np.testing.assert_allclose(dense(found[0], 5), tf.convert_to_tensor(grads[0]), atol=1e-5)
    np.testing.assert_allclose(found[1], grads[2], atol=1e-5)
    if ours is not None:
        biases_found = dense(found[2], 1)[:, 0] if biased == "table" else dense(found[2])
        np.testing.assert_allclose(biases_found, tf.convert_to_tensor(grads[1]), atol=1e-5)


def dense(slices, *width):
    summed = np.zeros((20, *width), np.float32)
    np.add.at(summed, slices.indices.numpy(), slices.values.numpy())
    return summed


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_draws_by_the_sampler_and_its_seed(sampler):
    table, labels = table_of(ROWS, True), LABELS[:, :1]

    def draw():
        tf.random.set_seed(1)
        return ops.sampled_softmax_loss(
            table, None, labels, INPUTS, 8, num_classes=20, seed=3, sampler=sampler
        )

    tf.random.set_seed(1)
    values = sampled(sampler, labels, 1)
    expected = tf.nn.sampled_softmax_loss(
        ROWS, np.zeros(20, np.float32), labels, INPUTS, 8, 20, sampled_values=values
    )
    np.testing.assert_allclose(draw(), expected, rtol=1e-5)
    np.testing.assert_allclose(tf.function(draw)(), draw(), rtol=1e-5)


def test_a_step_trains_the_rows_of_labels_and_of_drawn_classes():
    table = keras_sparse.EmbeddingVariable(None, 5)
    optimizer = keras_sparse.optimizers.Adagrad(0.1)
    optimizer.build([table])
    losses = []
    for _ in range(30):
        with tf.GradientTape() as tape:
            loss = ops.sampled_softmax_loss(table, None, LABELS[:, :1], INPUTS, 8, num_classes=20)
        optimizer.apply(tape.gradient(loss, [table]), [table])
        losses.append(float(tf.reduce_mean(loss)))
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) / 2
    ((keys, _),) = table.export()
    assert {3, 4, 19, 7} <= set(keys) <= set(range(20))


@pytest.mark.parametrize(
    ("table", "arguments", "error", "words"),
    [
        (tf.zeros((20, 5)), {}, TypeError, "`weights`"),
        (None, {}, ValueError, "`num_classes` must be given for a dynamic table"),
        (20, {"num_classes": 21}, ValueError, "at most the rows of `weights`"),
        (20, {"num_sampled": 0}, ValueError, "`num_sampled`"),
        (20, {"num_true": 0}, ValueError, "`num_true`"),
        (20, {"sampler": "zipf"}, ValueError, "`sampler` must be one of"),
        (20, {"biases": 2}, ValueError, "`biases` must have one column"),
        (20, {"labels": [[1.5]] * 4}, TypeError, "`labels` must be integers"),
        (20, {"labels": LABELS[:, 0]}, ValueError, r"num_true=1. Add .*\[:, None\].* \(4,\)"),
        (20, {"labels": LABELS}, ValueError, r"num_true=1. Give .* shape \(4, 2\)"),
        (20, {"labels": tf.ragged.constant([[1], [2], [3], [4]])}, ValueError, "a RaggedTensor"),
        (20, {"num_sampled": 21}, ValueError, "at most `num_classes`.*21, num_classes=20"),
        (None, {"num_sampled": 9, "num_classes": 8}, ValueError, "at most `num_classes`"),
        (None, {"num_classes": 7}, tf.errors.InvalidArgumentError, "`labels` must be in"),
    ],
)
def test_refuses_what_makes_no_sense(table, arguments, error, words):
    if not isinstance(table, tf.Tensor):
        table = keras_sparse.EmbeddingVariable(table, 5)
    if "biases" in arguments:
        arguments = {"biases": keras_sparse.EmbeddingVariable(20, arguments["biases"])}
    options = {"biases": None, "num_sampled": 6, "labels": LABELS[:, :1], **arguments}
    with pytest.raises(error, match=words):
        ops.sampled_softmax_loss(table, inputs=INPUTS, **options)


@pytest.mark.parametrize("shape", [None, (None, None)])
def test_checks_labels_whose_shape_only_a_step_knows(shape):
    table = table_of(ROWS, True)

    @tf.function(input_signature=[tf.TensorSpec(shape, tf.int64)])
    def loss_of(labels):
        return ops.sampled_softmax_loss(table, None, labels, INPUTS, 6, num_classes=20)

    assert loss_of(LABELS[:, :1]).shape == (4,)
    for labels in (LABELS, LABELS[:, 0]):
        if shape is None or labels.ndim == 2:
            with pytest.raises(tf.errors.InvalidArgumentError, match="`labels` must be of shape"):
                loss_of(labels)


def test_takes_inputs_in_half_precision():
    table = keras_sparse.EmbeddingVariable(20, 5)
    tf.random.set_seed(1)
    half = ops.sampled_softmax_loss(table, None, LABELS[:, :1], np.float16(INPUTS), 6, seed=3)
    tf.random.set_seed(1)
    whole = ops.sampled_softmax_loss(table, None, LABELS[:, :1], INPUTS, 6, seed=3)
    assert half.dtype == "float32"
    np.testing.assert_allclose(half, whole, rtol=0.01)


def test_refuses_a_layer_whose_padding_has_no_row():
    layer = keras_sparse.layers.Embedding(None, 4, padding_id=0)
    layer.build()
    with pytest.raises(ValueError, match=r"without a `padding_id`.*padding_id=0"):
        ops.sampled_softmax_loss(layer, None, [[1]], tf.ones((1, 4)), 3, num_classes=9)
