import keras
import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.layers import DistributedEmbedding

LAST = ksd.size() - 1


def layer_of(rows=10, width=8, **options):
    start = keras.initializers.RandomUniform(seed=0)
    table = keras_sparse.layers.Embedding(rows, width, "sum", embeddings_initializer=start)
    return DistributedEmbedding([table], **options)


@pytest.mark.parametrize("options", [{}, {"row_slice_threshold": 1}])
@pytest.mark.parametrize("in_function", [False, True])
def test_a_bad_id_on_one_rank_is_an_error_on_all_and_then_they_go_on(options, in_function):
    layer = layer_of(**options)
    lookup = tf.function(layer) if in_function else layer
    good = np.asarray(lookup([tf.constant([[3, 4]])])[0])
    bad = 10 if ksd.rank() == LAST else 3
    named = rf"\[rank {LAST} of {ksd.size()}\] " if ksd.size() > 1 else ""
    with pytest.raises(tf.errors.InvalidArgumentError, match=named + r"id must be in \[0, 10\)"):
        lookup([tf.constant([[3, bad]])])
    np.testing.assert_array_equal(lookup([tf.constant([[3, 4]])])[0], good)


def test_outputs_that_cannot_be_joined_on_one_rank_are_an_error_on_all():
    tables = [keras_sparse.layers.Embedding(10, 8, "sum") for _ in range(2)]
    layer = DistributedEmbedding(tables, output_mode="concat", row_slice_threshold=1)
    sizes = tf.TensorSpec((None, 2), tf.int64)
    lookup = tf.function(lambda *ids: layer(list(ids)), input_signature=[sizes, sizes])
    rows = lookup(tf.zeros((3, 2), tf.int64), tf.zeros((3, 2), tf.int64))
    wanted = "as many rows each.*3 of input 0, 2 of input 1"
    with pytest.raises(tf.errors.InvalidArgumentError, match=wanted):
        lookup(
            tf.zeros((3, 2), tf.int64),
            tf.zeros((2 if ksd.rank() == LAST else 3, 2), tf.int64),
        )
    again = lookup(tf.zeros((3, 2), tf.int64), tf.zeros((3, 2), tf.int64))
    np.testing.assert_array_equal(rows, again)


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "Adam"])
@pytest.mark.parametrize("options", [{}, {"row_slice_threshold": 1}])
def test_a_failing_step_changes_no_table(options, name):
    layer = layer_of(**options)
    optimizer = ksd.DistributedOptimizer(getattr(keras_sparse.optimizers, name)(0.1))

    def step(ids):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer([tf.constant([ids])])[0])
        variables = layer.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)

    def contents():
        return [checks.table_content(table) for table in layer.tables]

    step([3, 4])
    before = contents()
    for wrong in (-1, 10, 2**40):
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"\[0, 10\).*= {wrong}"):
            step([3, wrong if ksd.rank() == LAST else 4])
        assert contents() == before
    step([3, 4])
    assert contents() != before or not before


@pytest.mark.skipif(ksd.size() == 1, reason="one rank returns gradients to no other")
def test_gradients_that_one_rank_cannot_return_are_an_error_on_all():
    layer = layer_of()
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.SGD(1.0))

    def step(width):
        with tf.GradientTape() as tape:
            rows = layer([tf.constant([[3, 4]])])[0]
        variables = layer.trainable_variables
        grads = tape.gradient(rows, variables, output_gradients=tf.ones((1, width)))
        optimizer.apply(grads, variables)

    step(8)
    rows = np.asarray(layer([tf.range(10)[:, tf.newaxis]])[0])
    words = rf"\[rank {LAST} of {ksd.size()}\] `output_grads` must be .*Received: "
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        step(7 if ksd.rank() == LAST else 8)
    np.testing.assert_array_equal(layer([tf.range(10)[:, tf.newaxis]])[0], rows)
    step(8)


def test_ill_formed_inputs_on_one_rank_are_an_error_on_all():
    layer = layer_of()
    spec = [tf.TensorSpec((None, 2), tf.int64)], [tf.TensorSpec((None, 2))]
    lookup = tf.function(layer, input_signature=spec)
    num_weights = 2 if ksd.rank() == LAST else 3
    named = rf"(?<!\] )\[rank {LAST} of {ksd.size()}\] " if ksd.size() > 1 else ""  # once
    with pytest.raises(tf.errors.InvalidArgumentError, match=named + "`weights` must have one num"):
        lookup([tf.zeros((3, 2), tf.int64)], [tf.ones((num_weights, 2))])


@pytest.mark.skipif(ksd.size() == 1, reason="one rank agrees with itself")
def test_ranks_must_make_the_same_layer():
    layer = layer_of(width=8 if ksd.rank() == 0 else 4)
    words = r"All ranks must make a DistributedEmbedding.*Received: width=8 of table '.+' on rank 0"
    with pytest.raises(RuntimeError, match=rf"(?s){words}, width=4 on rank 1"):
        layer.build()
    tables = [keras.layers.Embedding(5, 2, name=name) for name in "ab"]
    layer = DistributedEmbedding(tables if ksd.rank() == 0 else tables[:1])
    with pytest.raises(RuntimeError, match="Received: 2 tables on rank 0, 1 on rank 1"):
        layer.build()
    strategy = "memory_balanced" if ksd.rank() == 0 else "basic"
    layer = DistributedEmbedding(tables, strategy=strategy)
    with pytest.raises(
        RuntimeError, match="strategy='memory_balanced' on rank 0, strategy='basic'"
    ):
        layer.build()


def test_names_what_is_wrong_with_its_arguments():
    embedding = keras.layers.Embedding
    with pytest.raises(ValueError, match="`embeddings` must be a list or dict of at least one"):
        DistributedEmbedding([])
    with pytest.raises(TypeError, match="`embeddings` must hold embedding layers"):
        DistributedEmbedding([keras.layers.Dense(3)])
    with pytest.raises(ValueError, match="`input_table_map` must hold tables"):
        DistributedEmbedding([embedding(5, 2)], input_table_map=[1])
    with pytest.raises(TypeError, match="`input_table_map` must be a list for a list"):
        DistributedEmbedding([embedding(5, 2)], input_table_map={"a": 0})
    with pytest.raises(ValueError, match=r"`strategy` must be one of"):
        DistributedEmbedding([embedding(5, 2)], strategy="best")
    with pytest.raises(ValueError, match=r"`wire_dtype` must be one of"):
        DistributedEmbedding([embedding(5, 2)], wire_dtype="int8")
    with pytest.raises(ValueError, match=r"`embeddings_constraint` .* Received: "):
        DistributedEmbedding([embedding(5, 2, embeddings_constraint="non_neg")])
    built = embedding(5, 2)
    built.build()
    with pytest.raises(ValueError, match="`embeddings` must hold layers that are not built"):
        DistributedEmbedding([built])
    with pytest.raises(ValueError, match="`inputs` must be a list with one entry per input, 1"):
        DistributedEmbedding([embedding(5, 2)])([tf.constant([1])] * 2)
    with pytest.raises(ValueError, match=r"`inputs` must be a dict with the keys \['user'\]"):
        DistributedEmbedding({"user": embedding(5, 2)})({"item": tf.constant([1])})


def test_names_what_is_wrong_with_whole_batches():
    table = keras_sparse.layers.Embedding
    with pytest.raises(ValueError, match="`row_slice_threshold` must be None with dp_input=False"):
        DistributedEmbedding([table(5, 2)], dp_input=False, row_slice_threshold=1)
    with pytest.raises(ValueError, match="`strategy` must be one of"):
        DistributedEmbedding([table(5, 2)], dp_input=False, strategy="auto")
    with pytest.raises(ValueError, match="A dynamic table is sharded by rows"):
        DistributedEmbedding([table(None, 2)], dp_input=False)
    layer = DistributedEmbedding([table(5, 8)], dp_input=False)
    if layer.own_inputs:
        if ksd.size() > 1:
            with pytest.raises(ValueError, match="must be divisible by the number of ranks"):
                layer([tf.zeros(ksd.size() + 1, tf.int64)])
        with pytest.raises(ValueError, match="must give one vector per sample"):
            layer([tf.zeros((ksd.size(), 2), tf.int64)])
