"""What holds for each admission filter, in a layer and in `fit`."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies

import checks
import keras_sparse
from filter_cases import each_filter
from filter_cases import filtered
from filter_cases import IDS
from filter_cases import make_model
from filter_cases import read
from filter_cases import remembered
from filter_cases import step
from filter_cases import table_of
from filter_cases import TARGETS
from filter_cases import train
from keras_sparse import CBFFilter
from keras_sparse import CounterFilter
from keras_sparse import EmbeddingVariable
from keras_sparse import LruEvict
from keras_sparse import ProbabilityFilter
from keras_sparse.layers import Embedding
from keras_sparse.saving import load_table
from keras_sparse.saving import save_table


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
    for number, (ids_late, ids_fresh) in enumerate([([1], []), ([1], []), ([1], [1]), ([], [])]):
        for table, optimizer, ids in zip(
            (late, fresh), optimizers, (ids_late, ids_fresh), strict=True
        ):
            values = tf.fill((len(ids), 1), 1.0 + number)
            optimizer.apply([tf.IndexedSlices(values, tf.constant(ids, tf.int64), (1, 1))], [table])
    assert checks.table_content(late) == checks.table_content(fresh) != {}


TYPES = ("uint8", "uint16", "uint32", "uint64")


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


KEYS = (-(2**63), -1, 0, 5, 2**63 - 1)


def test_of_one_makes_rows_as_without_a_filter():
    variable, optimizer = filtered(CounterFilter(1, default_value_no_permission=-2.0))
    assert read(variable, [7]) == [-2]
    step(variable, optimizer, [7])
    assert read(variable, [7, 8]) == [0.75, -2]


def test_reads_the_initial_row_if_asked_to():
    variable, optimizer = filtered(CounterFilter(2, "initializer"))
    step(variable, optimizer, [7])
    assert read(variable, [7, 8]) == [1, 1]
    step(variable, optimizer, [7])
    assert read(variable, [7, 8]) == [0.75, 1]


def test_reports_what_it_does():
    variable, optimizer = filtered(CounterFilter(2))
    step(variable, optimizer, [1, 2, 2])
    step(variable, optimizer, [2, 3])
    step(variable, optimizer, [2])
    stats = variable.stats()
    assert stats["filtered_ids"] == 3
    assert stats["waiting_keys"] == 2
    assert stats["created_rows"] == stats["rows"] == 1
    assert stats["filter_bytes"] > 0


class Model:
    """What a filtered table of rows of ones does, in dicts."""

    def __init__(self, filter_freq, count):
        self.filter_freq, self.counts, self.rows = filter_freq, {}, {}
        self.counts_occurrences = count == "occurrences"

    def step(self, ids):
        for key in set(ids):
            if key not in self.rows:
                more = ids.count(key) if self.counts_occurrences else 1
                self.counts[key] = self.counts.get(key, 0) + more
                if self.counts[key] < self.filter_freq:
                    continue
                del self.counts[key]
                self.rows[key] = 1.0
            self.rows[key] -= 0.25 * ids.count(key)

    def import_(self, keys):
        for key in keys:
            self.counts.pop(key, None)
            self.rows[key] = 9.0


ids = strategies.lists(strategies.integers(-3, 3) | strategies.sampled_from(KEYS), max_size=12)
actions = strategies.lists(
    strategies.tuples(strategies.sampled_from(["step"] * 6 + ["import", "clear"]), ids), max_size=12
)


@settings(deadline=None, max_examples=60)
@given(
    filter_freq=strategies.integers(1, 4),
    count=strategies.sampled_from(["steps", "occurrences"]),
    actions=actions,
)
def test_does_what_dicts_do(filter_freq, count, actions):
    variable, optimizer = filtered(CounterFilter(filter_freq, count=count))
    model = Model(filter_freq, count)
    for action, keys in actions:
        if action == "step":
            step(variable, optimizer, keys)
            model.step(keys)
        elif action == "import":
            variable.import_(np.array(keys, np.int64), np.full((len(keys), 1), 9.0))
            model.import_(keys)
        else:
            variable.clear()
            model = Model(filter_freq, count)
        seen = sorted({-3, 3, *KEYS, *model.rows, *model.counts})
        assert remembered(variable) == model.counts
        assert variable.num_rows == len(model.rows)
        assert read(variable, seen) == [model.rows.get(key, 0.0) for key in seen]


MANY_KEYS = np.arange(-5000, 5000)


def rows_after(admission, steps=1, **kwargs):
    variable, optimizer = filtered(admission, **kwargs)
    for _ in range(steps):
        step(variable, optimizer, MANY_KEYS)
    return set(np.concatenate([keys for keys, _ in variable.export()]).tolist())


def test_admits_the_share_that_it_is_asked_for():
    assert len(rows_after(ProbabilityFilter(0.1, seed=1))) == pytest.approx(1000, abs=100)
    assert len(rows_after(ProbabilityFilter(0.1, seed=1), 3)) == pytest.approx(2710, abs=150)
    assert len(rows_after(ProbabilityFilter(1))) == len(MANY_KEYS)


def test_draws_by_its_seed_or_that_of_the_table():
    first, second = (rows_after(ProbabilityFilter(0.5, seed)) for seed in (1, 2))
    assert first != second
    assert first == rows_after(ProbabilityFilter(0.5, 1), seed=8)
    assert rows_after(ProbabilityFilter(0.5, 2**64 - 1)) == rows_after(ProbabilityFilter(0.5, -1))
    # Initial rows of ones have the seed 0.
    assert rows_after(ProbabilityFilter(0.5)) == rows_after(ProbabilityFilter(0.5, 0))


def test_remembers_its_steps_and_its_seed():
    variable, optimizer = filtered(ProbabilityFilter(0.5, seed=-3))
    for _ in range(4):
        step(variable, optimizer, [1])
    assert remembered(variable) == {0: 4, 1: 0, 2: 2**32 - 3, 3: 2**32 - 1}
    assert variable.stats()["waiting_keys"] == 0
    variable.clear()
    assert remembered(variable)[0] == 0
