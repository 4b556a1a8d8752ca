import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from eviction_cases import make_table
from eviction_cases import step
from keras_sparse import EmbeddingVariable
from keras_sparse import L2WeightEvict


def keys_of(variable):
    return sorted(key for keys, _ in variable.export() for key in keys.tolist())


def test_a_row_below_the_threshold_goes_and_one_at_it_stays():
    variable = EmbeddingVariable(None, 2, eviction=L2WeightEvict(12.5))
    variable.import_([1, 2, -3, 4], [[3, 4], [3, 3.9999998], [0, 0], [-5, 0]])
    assert variable.evict() == 2
    assert keys_of(variable) == [1, 4]


@pytest.mark.parametrize("dim", [1, 7, 8, 64])
def test_weighs_as_numpy_does_in_float64(dim):
    rows = np.random.default_rng(0).normal(size=(2000, dim)).astype("float32")
    weights = 0.5 * (rows.astype("float64") ** 2).sum(axis=1)
    threshold = float(np.median(weights)) * 1.0000001
    variable = EmbeddingVariable(None, dim, eviction=L2WeightEvict(threshold))
    variable.import_(np.arange(2000), rows)
    assert variable.evict() == (weights < threshold).sum()
    assert keys_of(variable) == np.flatnonzero(weights >= threshold).tolist()


def test_slots_do_not_count():
    variable = EmbeddingVariable(None, 1, eviction=L2WeightEvict(0.5))
    keras_sparse.optimizers.Adagrad(1.0, initial_accumulator_value=100.0).build([variable])
    variable.import_([1, 2], [[0.1, 100.0], [1.0, 0.0]])
    assert variable.evict() == 1
    assert keys_of(variable) == [2]


@pytest.mark.parametrize("make", ["Adam", "AdamW", "RMSprop"])
def test_weighs_a_row_as_a_lookup_reads_it(make):
    """With the moves of the steps in which it had no gradient."""
    variable = EmbeddingVariable(None, 4, seed=1)
    optimizer = getattr(keras_sparse.optimizers, make)(0.02, weight_decay=0.5)
    optimizer.build([variable])
    rng = np.random.default_rng(0)
    for _ in range(12):
        ids = tf.constant(rng.integers(0, 100, 20))
        values = tf.constant(rng.normal(size=(20, 4)), tf.float32)
        optimizer.apply([tf.IndexedSlices(values, ids, (1, 4))], [variable])
    keys = keys_of(variable)
    (rows,) = keras_sparse.ops.lookup([variable], [np.array(keys)])
    weights = 0.5 * (rows.numpy().astype("float64") ** 2).sum(axis=1)
    middle = float(np.median(weights)) + 1e-9
    (num_evicted,) = keras_sparse.ops.evict_rows([variable], L2WeightEvict(middle)).numpy()
    assert num_evicted == (weights < middle).sum() == len(keys) // 2 + 1
    assert keys_of(variable) == [key for key, w in zip(keys, weights, strict=True) if w >= middle]


def test_takes_rows_that_training_has_brought_to_zero():
    variable, optimizer = make_table(L2WeightEvict(0.1))
    step(variable, optimizer, [1, 2])
    step(variable, optimizer, [2], gradient=-1.0)
    assert variable.evict() == 1
    assert keys_of(variable) == [1]
