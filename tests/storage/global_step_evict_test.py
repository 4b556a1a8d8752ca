import numpy as np
import tensorflow as tf
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies

import keras_sparse
from eviction_cases import ages_of
from eviction_cases import make_table
from eviction_cases import step
from keras_sparse import EmbeddingVariable
from keras_sparse import GlobalStepEvict
from keras_sparse import L2WeightEvict
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding

KEYS = (-(2**63), -1, 0, 5, 2**63 - 1)


def test_imported_rows_have_the_ages_they_come_with():
    variable, optimizer = make_table(GlobalStepEvict(2))
    step(variable, optimizer, [1, 2])
    step(variable, optimizer, [])
    variable.import_([2, 3, 4], np.ones((3, 1)), ages=[2, 1, 2**32 - 1])
    variable.import_([5], np.ones((1, 1)))
    assert ages_of(variable) == {1: 1, 2: 2, 3: 1, 4: 2**32 - 1, 5: 0}
    assert variable.evict() == 1
    step(variable, optimizer, [])
    assert variable.evict() == 1
    assert ages_of(variable) == {1: 2, 3: 2, 5: 1}


def test_a_table_without_it_keeps_no_ages():
    variable = EmbeddingVariable(None, 2)
    variable.import_(KEYS, np.ones((5, 2)), ages=np.arange(5))
    ((keys, records, ages),) = variable.export(with_ages=True)
    assert ages is None
    ((same_keys, same_records),) = variable.export()
    np.testing.assert_array_equal(keys, same_keys)
    np.testing.assert_array_equal(records, same_records)


class Model:
    """What a table of rows of zeros does, in dicts."""

    def __init__(self, steps_to_live):
        self.steps_to_live, self.rows, self.ages = steps_to_live, {}, {}

    def step(self, ids):
        self.ages = {key: age + 1 for key, age in self.ages.items()}
        for key in ids:
            self.rows[key] = self.rows.get(key, 0.0) - 1.0
            self.ages[key] = 0

    def evict(self):
        gone = [key for key, age in self.ages.items() if age > self.steps_to_live]
        for key in gone:
            del self.rows[key], self.ages[key]
        return len(gone)

    def clear(self):
        self.rows, self.ages = {}, {}


ids = strategies.lists(strategies.integers(-3, 3) | strategies.sampled_from(KEYS), max_size=5)
actions = strategies.lists(
    strategies.tuples(strategies.sampled_from(["step"] * 5 + ["evict"] * 3 + ["clear"]), ids),
    max_size=16,
)


@settings(deadline=None, max_examples=60)
@given(steps_to_live=strategies.integers(1, 3), actions=actions)
def test_does_what_dicts_do(steps_to_live, actions):
    variable, optimizer = make_table(GlobalStepEvict(steps_to_live))
    model = Model(steps_to_live)
    for action, keys in actions:
        if action == "step":
            step(variable, optimizer, keys)
            model.step(keys)
        elif action == "evict":
            assert variable.evict() == model.evict()
        else:
            variable.clear()
            model.clear()
        assert ages_of(variable) == model.ages
        seen = sorted({-3, 3, *KEYS, *model.rows})
        (rows,) = keras_sparse.ops.lookup([variable], [np.array(seen, np.int64)])
        assert rows.numpy()[:, 0].tolist() == [model.rows.get(key, 0.0) for key in seen]


def keys_of(variable):
    return sorted(key for keys, _ in variable.export() for key in keys.tolist())


def test_a_row_below_the_threshold_goes_and_one_at_it_stays():
    variable = EmbeddingVariable(None, 2, eviction=L2WeightEvict(12.5))
    variable.import_([1, 2, -3, 4], [[3, 4], [3, 3.9999998], [0, 0], [-5, 0]])
    assert variable.evict() == 2
    assert keys_of(variable) == [1, 4]


# What eviction lets go of can be had: each row once, as it was, and none that stays.
def rows_of(variable):
    return as_dict((keys, records) for keys, records in variable.export())


def as_dict(pieces):
    found = {}
    for keys, records in pieces:
        for key, record in zip(keys.tolist(), records, strict=True):
            assert key not in found
            found[key] = record.tobytes()
    return found


def train(variable, optimizer, seed, num_keys, num_steps=12):
    rng = np.random.default_rng(seed)
    for _ in range(num_steps):
        ids = tf.constant(rng.integers(-num_keys, num_keys, 40))
        grads = tf.constant(rng.normal(size=(40, 4)), tf.float32)
        optimizer.apply([tf.IndexedSlices(grads, ids, (1, 4))], [variable])


def test_no_row_is_no_error():
    variable = EmbeddingVariable(None, 4, eviction=GlobalStepEvict(5))
    keys, records = variable.evict(with_rows=True)
    assert (keys.shape, keys.dtype, records.shape) == ((0,), np.int64, (0, 4))


def test_rows_that_went_can_be_put_back():
    variable = EmbeddingVariable(None, 4, seed=1, eviction=L2WeightEvict(1e-3))
    optimizer = keras_sparse.optimizers.Adam(0.02)
    optimizer.build([variable])
    train(variable, optimizer, 0, 30)
    before = rows_of(variable)
    variable.import_(*variable.evict(with_rows=True))
    assert rows_of(variable) == before


def test_layers_give_them_too():
    layer = Embedding(None, 2, eviction=L2WeightEvict(1.0), name="items")
    layer(tf.constant([1]))
    layer.embeddings.import_([1, -2, 3], [[9, 9], [0.5, 0.25], [1, 1]])
    keys, records = layer.evict(with_rows=True)
    assert (keys.tolist(), records.tolist()) == ([-2], [[0.5, 0.25]])

    layer = DistributedEmbedding([Embedding(None, 2, "sum", eviction=L2WeightEvict(1.0), name="a")])
    layer([tf.constant([[1]])])
    layer.own_tables.by_table[0].import_([1, -2], [[9, 9], [0.5, 0.25]])
    keys, records = layer.evict(with_rows=True)["a"]
    assert (keys.tolist(), records.tolist()) == ([-2], [[0.5, 0.25]])
    assert layer.evict() == {"a": 0}
