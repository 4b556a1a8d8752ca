"""What holds for each admission filter, in a layer and in `fit`."""

import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
from filter_cases import each_filter
from filter_cases import IDS
from filter_cases import make_model
from filter_cases import remembered
from filter_cases import table_of
from filter_cases import TARGETS
from filter_cases import train
from keras_sparse import CounterFilter
from keras_sparse import EmbeddingVariable
from keras_sparse.layers import Embedding


@each_filter
def test_a_frequent_key_gets_a_row_and_a_rare_one_waits(case):
    model = make_model(case.make())
    train(model, 0, 256)
    table = table_of(model)
    stats = table.stats()
    assert 0 < table.num_rows < len(np.unique(IDS))
    assert stats["created_rows"] == table.num_rows
    assert stats["filtered_ids"] > 0
    assert 1 - 500 in checks.table_content(table)  # the most frequent one


@pytest.mark.parametrize(("combiner", "scale"), [("sum", 1), ("mean", 3), ("sqrtn", 3**0.5)])
def test_a_waiting_key_counts_in_its_bag_like_any_other(combiner, scale):
    admission = CounterFilter(2, default_value_no_permission=6.0)
    layer = Embedding(None, 1, combiner, admission=admission, embeddings_initializer="zeros")
    bag = np.array([[1, 2, 2]])
    np.testing.assert_allclose(layer(bag), [[18 / scale]], rtol=1e-6)
    optimizer = keras_sparse.optimizers.SGD(1.0)
    for ids in (np.array([[1]]), np.array([[1]]), bag):
        with tf.GradientTape() as tape:
            rows = layer(ids)
        gradients = tape.gradient(rows, layer.trainable_variables)
        optimizer.apply(gradients, layer.trainable_variables)
    # Key 1 is admitted in its second step, and key 2 waits still.
    assert layer.stats()["filtered_ids"] == 1 + 1
    np.testing.assert_allclose(layer(bag), [[(-1 - 1 / scale + 12) / scale]], rtol=1e-6)


@each_filter
def test_evaluate_and_predict_change_nothing(case):
    model = make_model(case.make())
    train(model, 0, 64)
    table = table_of(model)
    before = (checks.table_content(table), remembered(table), table.stats()["filtered_ids"])
    model.evaluate(IDS, TARGETS, verbose=0)
    model.predict(IDS, verbose=0)
    after = (checks.table_content(table), remembered(table), table.stats()["filtered_ids"])
    assert after == before


def test_the_gradient_of_weights_follows_what_is_read():
    layer = Embedding(None, 2, "sum", "ones", admission=CounterFilter(2, 0.5))
    ids, weights = tf.constant([[1, 2]], tf.int64), tf.constant([[3.0, 4.0]])
    layer.build()
    layer.embeddings.import_([1], [[1.0, 1.0]])
    with tf.GradientTape() as tape:
        tape.watch(weights)
        outputs = layer(ids, weights=weights)
    np.testing.assert_array_equal(outputs, [[5, 5]])
    np.testing.assert_array_equal(tape.gradient(outputs, weights), [[2, 1]])


def test_tables_of_one_step_have_filters_of_their_own():
    tables = [
        EmbeddingVariable(None, 1, "ones", admission=admission)
        for admission in (CounterFilter(2), None, CounterFilter(3, 0.5))
    ]
    optimizer = keras_sparse.optimizers.SGD(1.0)
    optimizer.build(tables)
    for _ in range(2):
        grads = [
            tf.IndexedSlices(tf.ones((1, 1)), tf.constant([4], tf.int64), (1, 1)) for _ in tables
        ]
        optimizer.apply(grads, tables)
    ids = [tf.constant([4, 5], tf.int64)] * 3
    rows = [each.numpy()[:, 0].tolist() for each in keras_sparse.ops.lookup(tables, ids)]
    assert rows == [[0, 0], [-1, 1], [0.5, 0.5]]
    counts = [each["waiting_keys"] for each in map(EmbeddingVariable.stats, tables)]
    assert counts == [0, 0, 1]


def test_a_row_begins_at_the_step_that_admits_its_key():
    """Steps in which its key waited move no row, whatever the optimizer."""
    late, fresh = (
        EmbeddingVariable(None, 1, "ones", admission=CounterFilter(freq)) for freq in (3, 1)
    )
    optimizers = [keras_sparse.optimizers.Adam(0.1) for _ in range(2)]
    for step, (ids_late, ids_fresh) in enumerate([([1], []), ([1], []), ([1], [1]), ([], [])]):
        for table, optimizer, ids in zip(
            (late, fresh), optimizers, (ids_late, ids_fresh), strict=True
        ):
            values = tf.fill((len(ids), 1), 1.0 + step)
            optimizer.apply([tf.IndexedSlices(values, tf.constant(ids, tf.int64), (1, 1))], [table])
    assert checks.table_content(late) == checks.table_content(fresh) != {}
