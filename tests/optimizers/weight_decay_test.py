import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse import EmbeddingVariable
from keras_sparse import optimizers
from keras_sparse.optimizers import SGD
from optimizer_cases import CLASSES
from optimizer_cases import dense
from optimizer_cases import each_class
from optimizer_cases import make_table
from optimizer_cases import random_rows
from optimizer_cases import slices

ADAMW = next(case for case in CLASSES if case.ours is optimizers.AdamW)


def test_a_key_without_a_row_does_not_shrink():
    table = EmbeddingVariable(None, 1, initializer="ones")
    optimizer = SGD(0.5, weight_decay=0.5)
    for _ in range(2):
        optimizer.apply([slices([7], np.zeros((1, 1), "float32"))], [table])
    rows = keras_sparse.ops.lookup([table], [tf.constant([7, 8], tf.int64)])[0]
    np.testing.assert_array_equal(rows, [[0.5625], [1]])
    optimizer.apply([slices([8], np.zeros((1, 1), "float32"))], [table])
    rows = keras_sparse.ops.lookup([table], [tf.constant([8], tf.int64)])[0]
    np.testing.assert_array_equal(rows, [[0.75]])


def of_two_tables(exclude, case=ADAMW):
    """Trains `first` and `second` by both, and returns the rows of ours and those of Keras."""
    rows = [random_rows(6, 2, seed) for seed in range(2)]
    names = ("first", "second")
    tables = [make_table(np.arange(6), r, name=n) for r, n in zip(rows, names, strict=True)]
    embeddings = [keras.Variable(r, name=n) for r, n in zip(rows, names, strict=True)]
    decay = 0.005 / case.arguments["learning_rate"]
    ours, reference = case.make(weight_decay=decay), case.make_keras(weight_decay=decay)
    ours.exclude_from_weight_decay(**exclude(tables))
    reference.exclude_from_weight_decay(**exclude(embeddings))
    for ids in ([0, 1], [2], [0], []):
        ids = [*ids, *range(6 if case.lazy else 0)]
        values = np.full((len(ids), 2), 0.5, "float32")
        ours.apply([slices(ids, values)] * 2, tables)
        reference.apply([dense(ids, values, 6)] * 2, embeddings)
    return [table.numpy() for table in tables], [each.numpy() for each in embeddings], rows


@pytest.mark.parametrize(
    "exclude",
    [
        lambda variables: {"var_names": ["sec"]},
        lambda variables: {"var_names": ["nothing", "^second"]},
        lambda variables: {"var_list": variables[1:]},
        lambda variables: {"var_list": variables[1:], "var_names": ["third"]},
    ],
)
def test_leaves_tables_out_as_keras_does(exclude):
    ours, expected, rows = of_two_tables(exclude)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=2e-6)
    np.testing.assert_array_equal(ours[1][5], rows[1][5])  # never in a batch
    assert np.all(ours[0][5] != rows[0][5])


@each_class
def test_every_optimizer_leaves_tables_out(case):
    ours, expected, _ = of_two_tables(lambda tables: {"var_list": tables[1:]}, case)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=2e-6)
    others, _, _ = of_two_tables(lambda tables: {"var_list": tables[:1]}, case)
    for left, right in zip(ours, others, strict=True):
        assert np.all(np.abs(left - right).max(axis=1) > 1e-5)  # the decay of each row shows


def test_leaves_out_the_table_of_a_layer_that_is_named_as_keras_does():
    trained = []
    for make in (keras.layers.Embedding, keras_sparse.layers.Embedding):
        layers = [make(4, 2, embeddings_initializer="ones", name=name) for name in "ab"]
        ids = keras.Input((), dtype="int64")
        model = keras.Model(ids, [layer(ids) for layer in layers])
        library = keras if make is keras.layers.Embedding else keras_sparse
        optimizer = library.optimizers.SGD(0.5, weight_decay=0.5)
        optimizer.exclude_from_weight_decay(var_names=["a/"])
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(rows) for rows in model(tf.constant([0]))])
        grads = tape.gradient(loss, model.trainable_variables)
        if library is keras:
            grads = [tf.convert_to_tensor(grad) for grad in grads]
        optimizer.apply(grads, model.trainable_variables)
        trained.append(model.get_weights())
    np.testing.assert_array_equal(*trained)


@pytest.mark.parametrize("exclude", [{"var_names": ["tab"]}, {"var_list": True}], ids=str)
def test_without_the_embedding_variables_is_keras_own(exclude):
    table = EmbeddingVariable(4, 2, initializer="zeros", name="table")
    kernel = keras.Variable([1.0])
    optimizer = SGD(0.5, weight_decay=0.5)
    if "var_list" in exclude:
        exclude = {"var_list": [table]}
    optimizer.exclude_from_weight_decay(**exclude)
    optimizer.apply([slices([0], np.ones((1, 2), "float32")), tf.zeros(1)], [table, kernel])
    assert kernel.numpy() == [0.75]
    np.testing.assert_array_equal(table.numpy()[:, 0], [-0.5, 0, 0, 0])


def test_none_of_zero_keeps_no_steps():
    tables = [EmbeddingVariable(4, 2) for _ in range(2)]
    for table, decay in zip(tables, (0.0, None), strict=True):
        SGD(0.5, weight_decay=decay).build([table])
    assert tables[0].stats()["bytes"] == tables[1].stats()["bytes"]
