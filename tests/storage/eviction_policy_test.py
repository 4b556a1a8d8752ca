"""What all eviction policies and the tables that have one keep to."""

import copy
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
from eviction_cases import ages_of
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
from keras_sparse import EmbeddingVariable
from keras_sparse import GlobalStepEvict
from keras_sparse import L2WeightEvict
from keras_sparse import LfuEvict
from keras_sparse import LruEvict
from keras_sparse import StorageOption
from keras_sparse import TimeToLive
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


# No test takes as long: what is younger stays so.
HOUR = 3600


def aged(eviction=None, **kwargs):
    """A table of keys 1, 2, 3 with ages of no, half an and one and a half hours."""
    variable, optimizer = make_table(eviction or TimeToLive(HOUR), **kwargs)
    variable.import_([1, 2, 3], np.ones((3, 1)), ages=[0, HOUR // 2, HOUR * 3 // 2])
    return variable, optimizer


def hours_of(variable):
    """`{key: age in half hours}` of all rows."""
    return {key: 2 * age // HOUR for key, age in ages_of(variable).items()}


def test_a_row_goes_once_so_much_time_has_passed():
    variable, optimizer = make_table(TimeToLive(HOUR))
    step(variable, optimizer, [1, 2])
    for _ in range(20):
        step(variable, optimizer, [3])
    time.sleep(2.1)
    step(variable, optimizer, [2])
    ages = ages_of(variable)
    assert ages[2] < 2 <= min(ages[1], ages[3]) < 20 * 60  # steps are no time
    assert keras_sparse.ops.evict_rows([variable], TimeToLive(1.5)).numpy() >= 2
    assert variable.contains([1, 3]).tolist() == [False, False]


@pytest.mark.parametrize("storage_type", [None, "DRAM_SSDHASH"])
def test_rows_go_by_the_ages_they_were_imported_with(storage_type, tmp_path):
    storage = storage_type and StorageOption(storage_type, tmp_path, [1, 1 << 20])
    variable, optimizer = aged(storage=storage)
    variable.import_([4], np.ones((1, 1)), ages=[2**32 - 1])
    variable.import_([5], np.ones((1, 1)))
    assert hours_of(variable) == {1: 0, 2: 1, 3: 3, 4: 2**32 // HOUR, 5: 0}
    for _ in range(3):
        step(variable, optimizer, [])
        keras_sparse.ops.lookup([variable], [np.array([3, 4])])
    step(variable, optimizer, [3])
    assert hours_of(variable) == {1: 0, 2: 1, 3: 0, 4: 2**32 // HOUR, 5: 0}
    assert variable.evict() == 1
    assert hours_of(variable) == {1: 0, 2: 1, 3: 0, 5: 0}
    keys, _ = EmbeddingVariable.evict(aged()[0], with_rows=True)
    assert keys.tolist() == [3]


def test_a_new_optimizer_and_a_copy_leave_ages_as_they_are():
    variable, _ = aged()
    keras_sparse.optimizers.Adam(0.1).build([variable])
    for each in (variable, copy.deepcopy(variable)):
        assert hours_of(each) == {1: 0, 2: 1, 3: 3}
        assert each.evict() == 1
    variable.clear()
    assert ages_of(variable) == {}


def test_it_makes_room_in_a_table_of_max_rows():
    variable, optimizer = aged(max_rows=3)
    step(variable, optimizer, [4])
    assert hours_of(variable) == {1: 0, 2: 1, 4: 0}
    with pytest.raises(tf.errors.ResourceExhaustedError, match="its eviction policy lets 0 go"):
        step(variable, optimizer, [5])
    assert hours_of(variable) == {1: 0, 2: 1, 4: 0}
    assert variable.stats()["evicted_rows"] == 1


def test_the_callback_and_saving_let_rows_go(tmp_path):
    for at_save in (True, False):
        model = make_model(TimeToLive(HOUR, at_save=at_save))
        train(model, 0, 16)
        old = [-(2**40), 2**40]
        table_of(model).import_(old, np.ones((2, 4)), ages=[2 * HOUR] * 2)
        model.save(tmp_path / "model.keras")
        assert table_of(model).contains(old).tolist() == [not at_save] * 2
        loaded = keras.saving.load_model(tmp_path / "model.keras")
        checks.assert_same_tables(table_of(loaded), table_of(model))
        fit(loaded, 16, 32, callbacks=[keras_sparse.callbacks.EvictRows()])
        assert table_of(loaded).stats()["evicted_rows"] == (0 if at_save else 2)


def test_the_unit_of_a_table_is_that_of_its_policy():
    words = "must keep the ages of rows in training steps for this eviction policy. Make it with"
    for policy in (GlobalStepEvict(3), LruEvict()):
        with pytest.raises(tf.errors.FailedPreconditionError, match=words):
            keras_sparse.ops.evict_rows([aged()[0]], policy)
    words = "in seconds for this eviction policy.*Received: a table with ages in training steps"
    with pytest.raises(tf.errors.FailedPreconditionError, match=words):
        keras_sparse.ops.evict_rows([make_table(GlobalStepEvict(3))[0]], TimeToLive(3))
    assert keras_sparse.ops.evict_rows([aged()[0]], TimeToLive(9)).numpy().tolist() == [2]
