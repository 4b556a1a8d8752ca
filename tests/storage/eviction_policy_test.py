"""What all eviction policies and the tables that have one keep to."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
from eviction_cases import each_policy
from eviction_cases import fit
from eviction_cases import IDS
from eviction_cases import make_model
from eviction_cases import make_table
from eviction_cases import step
from eviction_cases import table_of
from keras_sparse import CBFFilter
from keras_sparse import CounterFilter
from keras_sparse import EmbeddingVariable
from keras_sparse import GlobalStepEvict
from keras_sparse import L2WeightEvict
from keras_sparse import StorageOption
from keras_sparse.layers import Embedding


@each_policy
def test_survives_its_config(case):
    for at_save in (True, False):
        eviction = case.make(at_save=at_save)
        config = keras.saving.serialize_keras_object(eviction)
        copy = keras.saving.deserialize_keras_object(json.loads(json.dumps(config)))
        assert type(copy) is type(eviction)
        assert copy.get_config() == eviction.get_config()
        assert copy.at_save == at_save


@each_policy
def test_a_layer_keeps_its_contract_with_it(case, tmp_path):
    layer = Embedding(None, 2, "sum", "ones", eviction=case.make())
    checks.check_layer(layer, IDS[:8], (8, 2), tmp_path)
    clone = Embedding.from_config(layer.get_config())
    assert clone.eviction.get_config() == layer.eviction.get_config()


@each_policy
@pytest.mark.parametrize("optimizer", ["Adagrad", "Adam", "LazyAdam"])
def test_evicts_over_any_tiers_as_in_memory_bit_for_bit(optimizer, case, tmp_path):
    storages = [
        None,
        *(
            StorageOption("DRAM_SSDHASH", tmp_path / str(size), [size, 1 << 30])
            for size in (1, 20_000)
        ),
    ]
    models = [make_model(case.make(), optimizer, storage) for storage in storages]
    num_evicted = [[] for _ in models]
    for first in range(0, 256, 64):
        for model, evicted in zip(models, num_evicted, strict=True):
            fit(model, first, first + 64)
            evicted.append(model.get_layer("items").evict())
        for model in models[1:]:
            checks.assert_same_tables(table_of(model), table_of(models[0]))
    assert num_evicted[0] == num_evicted[1] == num_evicted[2]
    assert sum(num_evicted[0]) > 10
    assert all(m.get_layer("items").stats()["evicted_rows"] == sum(num_evicted[0]) for m in models)
    assert 0 < table_of(models[0]).num_rows < len(np.unique(IDS))


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


@pytest.mark.parametrize("make", [Embedding, EmbeddingVariable])
def test_a_table_takes_nothing_else(make):
    with pytest.raises(TypeError, match=r"`eviction` must be a policy of keras_sparse\.storage"):
        make(None, 4, eviction=3)
    with pytest.raises(ValueError, match=r"must be that of a dynamic table.*input_dim=10 with"):
        make(10, 4, eviction=L2WeightEvict(1.0))
    with pytest.raises(TypeError, match="`at_save` must be True or False"):
        L2WeightEvict(1.0, at_save="epoch")


@pytest.mark.parametrize("eviction", [None, 3])
def test_rows_are_evicted_by_a_policy_alone(eviction):
    with pytest.raises(TypeError, match=rf"`eviction` must be a policy of .*eviction={eviction}"):
        keras_sparse.ops.evict_rows([EmbeddingVariable(None, 4)], eviction)


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
