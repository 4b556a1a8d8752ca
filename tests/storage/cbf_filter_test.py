import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from filter_cases import filtered
from filter_cases import read
from filter_cases import step
from keras_sparse import CBFFilter
from keras_sparse import EmbeddingVariable
from keras_sparse import LruEvict
from keras_sparse.saving import load_table
from keras_sparse.saving import save_table

TYPES = ("uint8", "uint16", "uint32", "uint64")


@pytest.mark.parametrize("counter_type", TYPES)
def test_admits_keys_in_the_step_that_its_frequency_is_reached(counter_type):
    keys = (-(2**63), -1, 0, 5, 2**63 - 1)
    variable, optimizer = filtered(CBFFilter(3, 1000, 0.001, counter_type))
    for _ in range(2):
        step(variable, optimizer, [*keys, 5, 5])
        assert read(variable, keys) == [0.0] * 5
    step(variable, optimizer, keys)
    assert read(variable, keys) == [0.75] * 5
    variable.clear()
    step(variable, optimizer, keys)
    assert variable.num_rows == 0


def test_a_full_filter_admits_early_and_never_late():
    variable, optimizer = filtered(CBFFilter(3, 1000, 0.1, "uint8"))
    keys = np.arange(1000)
    for _ in range(2):
        step(variable, optimizer, keys)
    early = variable.num_rows
    assert 0 < early < 200
    assert variable.stats()["waiting_keys"] == pytest.approx(1000, rel=0.1)
    step(variable, optimizer, keys)
    assert variable.num_rows == 1000


@pytest.mark.parametrize("eviction", [None, LruEvict()])
def test_keys_of_a_step_let_none_of_the_others_in(eviction):
    variable = EmbeddingVariable(
        None, 2, admission=CBFFilter(2, 100), eviction=eviction, max_rows=200
    )
    optimizer = keras_sparse.optimizers.SGD(1.0)
    optimizer.build([variable])
    step(variable, optimizer, np.arange(20_000))  # many more than it is made for
    assert variable.num_rows == 0
    with pytest.raises(tf.errors.ResourceExhaustedError, match="`max_rows` of table"):
        step(variable, optimizer, np.arange(20_000, 40_000))
    assert variable.num_rows == 0
    step(variable, optimizer, np.arange(150))
    assert variable.num_rows == 150


@pytest.mark.parametrize("counter_type", TYPES)
def test_its_memory_follows_from_its_arguments(counter_type):
    variable, optimizer = filtered(CBFFilter(2, 100_000, 0.01, counter_type))
    expected = 958_506 * np.dtype(counter_type).itemsize
    before = variable.stats()["filter_bytes"]
    assert before == pytest.approx(expected, abs=10_000)
    step(variable, optimizer, np.arange(50_000))
    assert variable.stats()["filter_bytes"] == before


def test_its_counters_take_their_own_size_in_a_file():
    variable, optimizer = filtered(CBFFilter(200, 100_000, 0.01, "uint8"))
    step(variable, optimizer, np.arange(100_000))
    store = {}
    save_table(variable, store)
    assert sum(array.nbytes for array in store.values()) < 1_000_000


@pytest.mark.parametrize(
    "other",
    [
        (9, 1001, 0.01),
        (9, 1000, 0.02),
        (9, 1000, 0.01, "uint8"),
        (9, 1000, 0.01, "uint32", 0.0, "occurrences"),
    ],
)
def test_a_filter_of_another_size_starts_empty_and_says_so(other):
    variable, optimizer = filtered(CBFFilter(9, 1000, 0.01))
    step(variable, optimizer, [1])
    store = {}
    save_table(variable, store)
    loaded, optimizer = filtered(CBFFilter(*other))
    with pytest.warns(UserWarning, match="no filter of the same kind, count and size"):
        load_table(loaded, store)
    smaller, optimizer = filtered(CBFFilter(2, 1000, 0.01))
    load_table(smaller, store)
    step(smaller, optimizer, [1, 2])
    assert read(smaller, [1, 2]) == [0.75, 0]
