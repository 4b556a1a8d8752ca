"""What all eviction policies and the tables that have one keep to."""

import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
from eviction_cases import each_policy
from eviction_cases import fit
from eviction_cases import frequencies_of
from eviction_cases import IDS
from eviction_cases import make_model
from eviction_cases import make_table
from eviction_cases import step
from eviction_cases import table_of
from eviction_cases import train
from filter_cases import remembered
from keras_sparse import CBFFilter
from keras_sparse import CounterFilter
from keras_sparse import GlobalStepEvict
from keras_sparse import L2WeightEvict
from keras_sparse import LfuEvict
from keras_sparse.layers import Embedding


@each_policy
def test_a_row_that_comes_again_is_that_of_a_new_table(case):
    """With fresh slots: the second life of a key is as its first."""
    first, second = make_model(case.make(), "Adagrad"), make_model(case.make(), "Adagrad")
    table = table_of(second)
    second.train_on_batch(IDS[:1], np.full((1, 1), 1e-3))
    keys, records = next(table.export())
    table.import_(keys, np.zeros((len(keys), 4)), np.full(len(keys), 9))
    assert second.get_layer("items").evict() == len(np.unique(IDS[:1]))
    second.get_layer(index=-1).set_weights(first.get_layer(index=-1).get_weights())
    for model in (first, second):
        optimizer = keras_sparse.optimizers.Adagrad(0.05)
        optimizer.build([table_of(model)])
        values = tf.ones((3, 4))
        ids = tf.constant(IDS[0], tf.int64)
        optimizer.apply([tf.IndexedSlices(values, ids, (1, 4))], [table_of(model)])
    checks.assert_same_tables(table_of(first), table_of(second))
    assert records.shape[1] == 8


def test_a_counter_counts_a_key_anew_and_a_cbf_does_not():
    admissions = {"counter": CounterFilter(3), "cbf": CBFFilter(3, 100, 0.01)}
    steps_to_row = {}
    for name, admission in admissions.items():
        variable, optimizer = make_table(GlobalStepEvict(1), admission=admission)
        for _ in range(3):
            step(variable, optimizer, [7])
        for _ in range(2):
            step(variable, optimizer, [])
        assert variable.evict() == 1
        steps_to_row[name] = 0
        while variable.num_rows == 0:
            step(variable, optimizer, [7])
            steps_to_row[name] += 1
    assert steps_to_row == {"counter": 3, "cbf": 1}


def test_a_table_without_a_policy_says_what_to_do():
    layer = Embedding(None, 4)
    with pytest.raises(RuntimeError, match="`evict` must be called on a built layer"):
        layer.evict()
    layer.build()
    with pytest.raises(ValueError, match=r"with an eviction policy\. Give it one: .*GlobalStep"):
        layer.evict()
    with pytest.raises(tf.errors.FailedPreconditionError, match="must keep the steps of gradients"):
        keras_sparse.ops.evict_rows([layer.embeddings], GlobalStepEvict(1))
    assert keras_sparse.ops.evict_rows([layer.embeddings], L2WeightEvict(1)).numpy().tolist() == [0]


def test_a_graph_evicts_and_admits_as_single_steps_do():
    options = {"eviction": LfuEvict(), "max_rows": 16, "admission": CounterFilter(2)}
    train(model := make_model(**options), 0, 128)
    fit(graph := make_model(steps_per_execution=4, **options), 0, 128)
    expected, table = table_of(model), table_of(graph)
    assert frequencies_of(table) == frequencies_of(expected)
    assert remembered(table) == remembered(expected) != {}
    assert table.stats()["evicted_rows"] == expected.stats()["evicted_rows"] > 10
    rows = [each.find([*frequencies_of(table)]).rows for each in (table, expected)]
    np.testing.assert_allclose(*rows, rtol=1e-5)


def test_a_compiled_function_takes_the_op():
    variable, optimizer = make_table(GlobalStepEvict(1))
    step(variable, optimizer, [1])
    step(variable, optimizer, [2])
    step(variable, optimizer, [])
    with pytest.raises(RuntimeError, match=r"must be called outside of a `tf\.function`"):
        tf.function(variable.evict)()
    evict = tf.function(lambda: keras_sparse.ops.evict_rows([variable], variable.eviction))
    assert evict().numpy().tolist() == [1]
    assert evict().numpy().tolist() == [0]
