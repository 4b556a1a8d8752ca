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
from eviction_cases import fit
from eviction_cases import frequencies_of
from eviction_cases import make_model
from eviction_cases import make_table
from eviction_cases import step
from eviction_cases import table_of
from eviction_cases import train
from filter_cases import remembered
from keras_sparse import CounterFilter
from keras_sparse import GlobalStepEvict
from keras_sparse import L2WeightEvict
from keras_sparse import LfuEvict
from keras_sparse import LruEvict
from keras_sparse import TimeToLive
from keras_sparse.layers import Embedding


def test_a_table_without_a_policy_says_what_to_do():
    layer = Embedding(None, 4)
    with pytest.raises(RuntimeError, match="`evict` must be called on a built layer"):
        layer.evict()
    layer.build()
    with pytest.raises(ValueError, match=r"policy\. Create it with a policy: .*GlobalStep"):
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


def test_a_new_optimizer_and_a_copy_leave_ages_as_they_are():
    variable, _ = aged()
    keras_sparse.optimizers.Adam(0.1).build([variable])
    for each in (variable, copy.deepcopy(variable)):
        assert hours_of(each) == {1: 0, 2: 1, 3: 3}
        assert each.evict() == 1
    variable.clear()
    assert ages_of(variable) == {}


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


def test_an_error_names_both_kinds_of_a_time():
    with pytest.raises(TypeError, match=r"a number of seconds or a `datetime.timedelta`.*='30d'"):
        TimeToLive("30d")
