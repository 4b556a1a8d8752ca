"""`embeddings_regularizer`: a loss of all rows, as in Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from pairwise import each_pair

ROWS, WIDTH = 40, 3


def make_data():
    """Ids of a few rows, so that most rows move by the regularizer alone."""
    random = np.random.default_rng(1)
    return random.integers(0, 6, (32, 2)), random.random((32, 1), np.float32)


def make_model(layer):
    ids = keras.Input((2,), dtype="int64")
    rows = layer([ids])[0] if isinstance(layer, DistributedEmbedding) else layer(ids)
    outputs = keras.layers.Dense(1, kernel_initializer="ones")(keras.layers.Flatten()(rows))
    return keras.Model(ids, outputs)


@keras.saving.register_keras_serializable("embeddings_regularizer_test")
def orthogonal(rows):
    """A regularizer of one's own, that mixes rows."""
    return 0.01 * tf.reduce_sum(tf.square(tf.linalg.matmul(rows, rows, transpose_a=True)))


def train(model, optimizer, **options):
    model.compile(optimizer, "mse", **options)
    ids, targets = make_data()
    history = model.fit(ids, targets, batch_size=16, epochs=2, shuffle=False, verbose=0)
    return history.history["loss"], model.evaluate(ids, targets, verbose=0)


REGULARIZERS = {
    "l2": "l2",
    "l1_l2": keras.regularizers.L1L2(0.003, 0.02),
    "columns": keras.regularizers.OrthogonalRegularizer(0.01, mode="columns"),
    "own": orthogonal,
}


@each_pair(regularizer=REGULARIZERS, distributed=[False, True], name=["SGD", "Adam"])
def test_trains_as_keras_does(regularizer, distributed, name):
    options = {"run_eagerly": regularizer != "l2"}
    regularizer = REGULARIZERS[regularizer]
    theirs = keras.layers.Embedding(ROWS, WIDTH, embeddings_regularizer=regularizer)
    theirs.build()
    ours = DistributedEmbedding([theirs.from_config(theirs.get_config())])
    if distributed:
        ours.build()
        ours.set_weights(theirs.get_weights())
    else:
        ours = Embedding.from_keras(theirs)
    ours_model, their_model = make_model(ours), make_model(theirs)
    expected = train(their_model, getattr(keras.optimizers, name)(0.05), **options)
    given = train(ours_model, getattr(keras_sparse.optimizers, name)(0.05), **options)
    np.testing.assert_allclose(given[0], expected[0], rtol=1e-5)
    np.testing.assert_allclose(given[1], expected[1], rtol=1e-5)
    np.testing.assert_allclose(ours.get_weights()[0], theirs.get_weights()[0], atol=2e-6)


def test_is_left_out_where_the_layer_is_frozen():
    layer = Embedding(ROWS, WIDTH, embeddings_regularizer="l2")
    model = make_model(layer)
    assert len(model.losses) == 1
    layer.trainable = False
    assert model.losses == []


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_is_of_the_float32_rows_under_mixed_precision(policy):
    layer = Embedding(ROWS, WIDTH, embeddings_regularizer="l2", dtype=policy)
    layer.build()
    (loss,) = layer.losses
    assert loss.dtype == tf.float32
    np.testing.assert_allclose(loss, 0.01 * np.square(layer.get_weights()[0]).sum(), rtol=1e-6)


def test_is_saved_with_the_model(tmp_path):
    layer = Embedding(ROWS, WIDTH, embeddings_regularizer=keras.regularizers.L1L2(0.25, 0.5))
    model = make_model(layer)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.losses, model.losses)
    same = Embedding.from_config(layer.get_config()).embeddings_regularizer
    assert (float(same.l1), float(same.l2)) == (0.25, 0.5)
    assert Embedding.from_config(Embedding(4, 2).get_config()).embeddings_regularizer is None


def test_each_table_of_a_layer_has_its_own():
    tables = [
        keras.layers.Embedding(5, 2, "ones", embeddings_regularizer=each, trainable=trainable)
        for each, trainable in [("l1", True), (None, True), ("l2", True), ("l2", False)]
    ]
    layer = DistributedEmbedding(tables)
    layer([tf.constant([1])] * 4)
    np.testing.assert_allclose(layer.losses, [0.01 * 10, 0.01 * 10], rtol=1e-6)
    layer.set_weights([np.full((5, 2), 3, np.float32)] * 4)
    np.testing.assert_allclose(layer.losses, [0.01 * 30, 0.01 * 90], rtol=1e-6)


def test_is_refused_on_a_dynamic_table():
    words = r"`embeddings_regularizer` must be left out of a dynamic table.*Received: input_dim=N"
    with pytest.raises(ValueError, match=words):
        Embedding(None, 3, embeddings_regularizer="l2")


def test_takes_a_function_that_is_not_registered():
    def twice(rows):
        return 2 * tf.reduce_sum(rows)

    theirs = keras.layers.Embedding(ROWS, WIDTH, "ones", embeddings_regularizer=twice)
    layer = DistributedEmbedding([theirs])
    layer.build()
    np.testing.assert_allclose(layer.losses, [2.0 * ROWS * WIDTH])
    theirs.build()
    np.testing.assert_allclose(Embedding.from_keras(theirs).losses, [2.0 * ROWS * WIDTH])


def test_names_an_unknown_one():
    with pytest.raises(ValueError, match="not_there"):
        Embedding(4, 3, embeddings_regularizer="not_there")
