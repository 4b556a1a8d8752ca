"""Tables of `max_rows` that make room: rows go by their last step, or by how many they had."""

import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
from checkpoint_cases import storage as tiers
from eviction_cases import ages_of
from eviction_cases import frequencies_of
from eviction_cases import IDS
from eviction_cases import make_model
from eviction_cases import make_table
from eviction_cases import step
from eviction_cases import table_of
from eviction_cases import TARGETS
from keras_sparse import LfuEvict
from keras_sparse import LruEvict

MAX_ROWS = 500
each_policy = pytest.mark.parametrize("policy", [LruEvict, LfuEvict])


@each_policy
def test_the_first_rows_go_by_the_order_of_the_policy(policy):
    """Of a queue over any tiers: `tests/ops/core/table/eviction_queue_test.cc`."""
    variable, optimizer = make_table(policy(), max_rows=2, frequency=True)
    for ids in ([1], [1], [2], [3]):
        step(variable, optimizer, ids)
    assert frequencies_of(variable) == ({2: 1, 3: 1} if policy is LruEvict else {1: 2, 3: 1})
    assert variable.stats()["evicted_rows"] == 1


def small_model(policy, storage=None):
    return make_model(policy(), storage=storage, max_rows=60)


def test_rows_that_are_loaded_beyond_the_limit_go_at_the_next_room_or_save(tmp_path):
    variable, optimizer = make_table(LruEvict(), max_rows=MAX_ROWS)
    keys = np.arange(MAX_ROWS + 40)
    variable.import_(keys, np.ones((len(keys), 1)), ages=keys[::-1])
    step(variable, optimizer, [MAX_ROWS])  # there already
    assert variable.num_rows == MAX_ROWS + 40
    step(variable, optimizer, [9999])
    assert sorted(ages_of(variable)) == [*range(41, MAX_ROWS + 40), 9999]
    variable.import_(keys[:3], np.ones((3, 1)), ages=[7000, 9000, 8000])
    gone, records = variable.evict(with_rows=True)
    assert gone.tolist() == [1, 2, 0]
    assert records.tolist() == [[1.0]] * 3


@each_policy
@pytest.mark.parametrize("storage_type", [None, "DRAM_SSDHASH"])
def test_lookups_ahead_change_nothing(policy, storage_type, tmp_path):
    models = [small_model(policy, tiers(storage_type, tmp_path / str(i))) for i in range(2)]
    data = tf.data.Dataset.from_tensor_slices((IDS, TARGETS)).batch(16)
    ahead = keras_sparse.data.prefetch_lookups(data, models[1])
    for model, each in zip(models, (data, ahead), strict=True):
        model.fit(each, shuffle=False, verbose=0)
    assert table_of(models[1]).stats()["evicted_rows"] > 50
    checks.assert_same_tables(table_of(models[0]), table_of(models[1]))
