import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse import native

MEAN_RANK = (ksd.size() - 1) / 2


def make_tape(**arguments):
    return ksd.DistributedGradientTape(tf.GradientTape(**arguments))


def test_averages_variables_in_the_structure_of_the_sources():
    first, second = keras.Variable([1.0, 2.0]), tf.Variable(3.0)
    with make_tape() as tape:
        loss = float(ksd.rank()) * (tf.reduce_sum(first * first) + 5.0 * second)
    grads = tape.gradient(loss, {"b": [first], "a": second})
    np.testing.assert_allclose(grads["b"][0], [2 * MEAN_RANK, 4 * MEAN_RANK])
    np.testing.assert_allclose(grads["a"], 5 * MEAN_RANK)


def test_a_persistent_tape_gives_gradients_again_and_those_of_tensors_as_they_are():
    variable, tensor = tf.Variable(2.0), tf.constant(float(ksd.rank()))
    with make_tape(persistent=True, watch_accessed_variables=False) as tape:
        tape.watch([variable, tensor])
        loss = variable * tensor
    for _ in range(2):
        np.testing.assert_allclose(tape.gradient(loss, variable), MEAN_RANK)
    np.testing.assert_allclose(tape.gradient(loss, tensor), 2.0)


def test_what_has_no_gradient_has_none():
    used, unused = tf.Variable(1.0), tf.Variable([1.0, 1.0])
    with make_tape(persistent=True) as tape:
        loss = used * float(ksd.rank())
    assert tape.gradient(loss, [unused, used])[0] is None
    zeros, grad = tape.gradient(loss, [unused, used], unconnected_gradients="zero")
    np.testing.assert_array_equal(zeros, [0, 0])
    np.testing.assert_allclose(grad, MEAN_RANK)


@pytest.mark.parametrize("combiner", [None, "sum"])
def test_gives_the_merged_rows_of_all_ranks_in_their_order(combiner):
    layer = keras_sparse.layers.Embedding(10, 1, combiner=combiner)
    ids = tf.constant([[ksd.rank(), 9, ksd.rank()]])
    layer.build(ids.shape)
    with make_tape() as tape:
        loss = tf.reduce_sum(layer(ids))
    grad = tf.IndexedSlices(*merged(tape.gradient(loss, layer.trainable_variables)[0]))
    expected = dict.fromkeys(range(ksd.size()), 2 / ksd.size())
    assert dict(zip(grad.indices.numpy(), grad.values.numpy()[:, 0], strict=True)) == (
        pytest.approx({**expected, 9: 1.0})
    )


def merged(grad):
    ids, values = native.merge_gradients([grad.indices], [grad.values])
    return values[0], ids[0]


def test_ranks_may_have_no_ids():
    tables = [keras_sparse.EmbeddingVariable(10, width) for width in (2, 3)]
    ids = [tf.fill([n], tf.constant(ksd.rank(), tf.int64)) for n in (ksd.rank(), 0)]
    with make_tape() as tape:
        rows = keras_sparse.ops.lookup(tables, ids)
        loss = tf.add_n([tf.reduce_sum(each) for each in rows])
    first, second = tape.gradient(loss, tables)
    np.testing.assert_array_equal(first.indices, np.arange(1, ksd.size()))
    np.testing.assert_allclose(first.values[:, 0], np.arange(1, ksd.size()) / ksd.size())
    assert second.values.shape == (0, 3)


def test_both_the_tape_and_the_optimizer_average_to_the_same():
    table, kernel = keras_sparse.EmbeddingVariable(4, 1, initializer="zeros"), keras.Variable([0.0])
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.SGD(1.0))
    with make_tape() as tape:
        (rows,) = keras_sparse.ops.lookup([table], [tf.constant([1, 1], tf.int64)])
        loss = float(ksd.rank()) * (tf.reduce_sum(rows) + kernel[0])
    optimizer.apply(tape.gradient(loss, [table, kernel]), [table, kernel])
    np.testing.assert_allclose(table.numpy()[1], [-2 * MEAN_RANK])
    np.testing.assert_allclose(kernel.numpy(), [-MEAN_RANK])


@pytest.mark.skipif(ksd.size() == 1, reason="one rank has all of every table")
@pytest.mark.parametrize("option", ["clipnorm", "global_clipnorm"])
def test_norms_of_parts_of_tables_are_refused_without_the_distributed_optimizer(option):
    layer = keras_sparse.layers.DistributedEmbedding([keras.layers.Embedding(8, 4)] * 1)
    layer.build()
    optimizer = keras_sparse.optimizers.Adagrad(0.1, **{option: 1.0})
    with make_tape() as tape:
        loss = tf.reduce_sum(layer([tf.constant([1, 2])])[0])
    grads = tape.gradient(loss, layer.trainable_variables)
    with pytest.raises(ValueError, match="`clipnorm` and `global_clipnorm` must be those of a"):
        optimizer.apply(grads, layer.trainable_variables)


def test_takes_a_tape():
    with pytest.raises(TypeError, match=r"`tape` must be a `tf.GradientTape`. Received: tape=3"):
        ksd.DistributedGradientTape(3)
