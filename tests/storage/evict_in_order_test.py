"""Tables of `max_rows` that make room: rows go by their last step, or by how many they had."""

import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
from checkpoint_cases import storage as tiers
from checkpoint_cases import STORAGE_TYPES
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
RNG = np.random.default_rng(0)
# Keys that come often and many that do not, one batch a step.
each_policy = pytest.mark.parametrize("policy", [LruEvict, LfuEvict])
BATCHES = [RNG.zipf(1.2, RNG.integers(1, 120)) % 5000 - 2000 for _ in range(60)]


class Model:
    """What the table does, in a dict that is sorted for each step: the steps of each key."""

    def __init__(self, policy):
        self.by_frequency = policy is LfuEvict
        self.steps, self.step, self.num_evicted = {}, 0, 0
        self.frequencies = {}

    def train(self, ids):
        ids = set(ids.tolist())
        num_new = len(ids - self.steps.keys())
        others = sorted(
            (self.frequencies[key] if self.by_frequency else 0, at, key)
            for key, at in self.steps.items()
            if key not in ids
        )
        for *_, key in others[: max(0, len(self.steps) + num_new - MAX_ROWS) if num_new else 0]:
            del self.steps[key], self.frequencies[key]
            self.num_evicted += 1
        self.step += 1
        self.steps.update(dict.fromkeys(ids, self.step))
        self.frequencies.update({key: self.frequencies.get(key, 0) + 1 for key in ids})

    @property
    def ages(self):
        return {key: self.step - at for key, at in self.steps.items()}


def make(policy=LruEvict, storage=None):
    return make_table(policy(), max_rows=MAX_ROWS, storage=storage, frequency=True)


@each_policy
@pytest.mark.parametrize("storage_type", STORAGE_TYPES)
def test_the_first_rows_go_over_any_tiers(policy, storage_type, tmp_path):
    variable, optimizer = make(policy, tiers(storage_type, tmp_path))
    model = Model(policy)
    rows = {}
    for ids in BATCHES:
        step(variable, optimizer, ids)
        model.train(ids)
        for key in ids.tolist():
            rows[key] = rows.get(key, 0.0) - 1.0
        rows = {key: rows[key] for key in model.steps}
        assert ages_of(variable) == model.ages
    assert frequencies_of(variable) == model.frequencies
    pieces = zip(*variable.export(), strict=True)
    keys, records = (np.concatenate(each) for each in pieces)
    assert dict(zip(keys.tolist(), records[:, 0].tolist(), strict=True)) == rows
    assert variable.stats()["evicted_rows"] == model.num_evicted > 500
    assert variable.evict() == 0


def small_model(policy, storage=None):
    return make_model(policy(), storage=storage, max_rows=60)


def test_rows_that_are_loaded_beyond_the_limit_go_at_the_next_room_or_save(tmp_path):
    variable, optimizer = make()
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
