"""`prefetch_lookups` changes no bit of a training, however its batches come."""

import functools
import gc

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import prefetch_cases as cases
from keras_sparse.data import prefetch_lookups
from optimizer_cases import each_class
from stages import keep_stages
from stages import stage_threads
from stages import wait_for_stage_threads
from table_twins import each_stack
from table_twins import small

QUIET = {"verbose": 0, "shuffle": False}


@pytest.fixture
def storage(tmp_path):
    """Makes a small storage of its own for each table."""
    number = iter(range(100))
    is_on_gpu = keras_sparse.StorageOption().is_on_gpu  # all tables of this run
    default = "HBM_DRAM_SSDHASH" if is_on_gpu else "DRAM_SSDHASH"
    return lambda kind=default: small(tmp_path / str(next(number)), kind)


@pytest.fixture(scope="module")
def trained():
    """A model that two epochs without stages have trained, and their history."""
    history = (model := cases.make_model()).fit(cases.make_data(), epochs=2, **QUIET).history
    return model, history


@each_stack
def test_exact_training_is_that_without_it_bit_for_bit(storage, storage_type, trained, monkeypatch):
    data = cases.make_data()
    plain, expected = trained
    model = cases.make_model(lambda: storage(storage_type))
    stages = keep_stages(monkeypatch)
    ahead = prefetch_lookups(data, model, num_threads=2, capacity=4)
    assert model.fit(ahead, epochs=2, **QUIET, callbacks=stages).history == expected
    cases.assert_same(model, plain)
    stats = cases.prefetch_stats(model)
    assert stats["staged"] == 2 * 2 * cases.BATCHES
    assert stats["used"] >= 2 * 2 * (cases.BATCHES - 1)  # all but the first of an epoch
    assert stats["used"] + stats["missed"] == stats["staged"]
    assert stats["staleness_max"] == 0


@each_class
def test_exact_training_is_that_without_it_for_each_optimizer(storage, case, monkeypatch):
    data = cases.make_data().take(2)
    plain = cases.make_model(optimizer=case.make(), run_eagerly=True)
    model = cases.make_model(storage, case.make(), run_eagerly=True)
    plain.fit(data, epochs=2, **QUIET)
    stages = keep_stages(monkeypatch)
    ahead = prefetch_lookups(data, model, 1, 2)
    model.fit(ahead, epochs=2, **QUIET, callbacks=stages)
    cases.assert_same(model, plain)
    assert cases.prefetch_stats(model)["used"] > 0


@pytest.mark.parametrize(
    ("num_threads", "capacity", "max_rows"),
    [(1, 1, None), (2, 4, None), (4, 4, None), ("auto", "auto", None), (2, 4, 5)],
)
def test_rows_miss_as_many_updates_as_they_say(num_threads, capacity, max_rows, monkeypatch):
    options = {} if max_rows is None else {"max_rows": 5, "eviction": keras_sparse.LruEvict()}
    layer = keras_sparse.layers.Embedding(None, 1, embeddings_initializer="zeros", **options)
    model = keras.Sequential([keras.Input((2,), dtype="int64"), layer])
    optimizer = keras_sparse.optimizers.SGD(1.0)
    optimizer.build(model.trainable_variables)
    # Each batch has id 7 and one of its own; each step takes 1 from the row of id 7.
    ids = tf.data.Dataset.range(20).map(lambda number: tf.stack([7, 100 + number])).batch(1)
    missed = []
    stages = keep_stages(monkeypatch)
    for step, batch in enumerate(prefetch_lookups(ids, model, num_threads, capacity, "stale")):
        with tf.GradientTape() as tape:
            rows = layer(batch)
            loss = tf.reduce_sum(rows)
        missed.append(step + int(rows[0, 0, 0]))
        if step < 19:
            stages[0].wait()  # its next batch then misses this update
        optimizer.apply(tape.gradient(loss, model.trainable_variables))
    stats = layer.stats()["prefetch"]
    assert stats["staleness_max"] == max(missed)
    assert stats["staleness_max"] <= (12 if capacity == "auto" else capacity)
    assert stats["staleness_mean"] * max(1, stats["used"]) == pytest.approx(sum(missed))
    assert stats["used"] + stats["dropped"] == stats["staged"] == 20
    assert sum(missed) > 0
    # Rows that make room for an update go with it, and take no lookup ahead along.
    assert layer.stats()["rows"] == (max_rows or 21)


@pytest.mark.parametrize("mode", ["exact", "stale"])
def test_rows_of_many_tables_in_one_tensor_are_used(storage, mode, monkeypatch):
    tables = [
        keras_sparse.layers.Embedding(None, width, seed=width, storage=storage())
        for width in (1, 4)
    ]
    layer = keras_sparse.layers.GroupEmbedding(tables, output_mode="concat")
    model = keras.Sequential([keras.Input((2,), dtype="int64"), layer])
    optimizer = keras_sparse.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)
    keys = np.arange(400).reshape(200, 2)  # more than stay in memory
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(keys))
    optimizer.apply(tape.gradient(loss, model.trainable_variables))
    expected = layer(keys).numpy()
    ids = tf.data.Dataset.from_tensor_slices(keys).batch(20)
    stages = keep_stages(monkeypatch)
    for step, batch in enumerate(prefetch_lookups(ids, model, 2, 4, mode)):
        stages[0].wait()
        np.testing.assert_array_equal(layer(batch), expected[20 * step : 20 * (step + 1)])
    assert sum(each["prefetch"]["used"] for each in layer.stats().values()) == 10


def take_five_steps(layer):
    """One more than capacity and num_threads."""
    optimizer = keras_sparse.optimizers.SGD(1.0)
    for _ in range(5):
        grads = tf.IndexedSlices(tf.ones((1, 1)), tf.constant([2], tf.int64), (2**62, 1))
        optimizer.apply([grads], layer.trainable_variables)


@pytest.mark.parametrize(
    ("input_dim", "change", "expected"),
    [
        (4, lambda layer: layer.set_weights([np.full((4, 1), 5.0)]), 5),
        (None, lambda layer: layer.assign([2], [[5.0]]), 5),
        (None, lambda layer: layer.erase([2]), 0),
        (None, take_five_steps, 2),
    ],
    ids=["set_weights", "assign", "erase", "too many steps"],
)
def test_rows_from_before_a_change_are_not_used(input_dim, change, expected, monkeypatch):
    layer = keras_sparse.layers.Embedding(input_dim, 1, embeddings_initializer="zeros")
    model = keras.Sequential([keras.Input((1,), dtype="int64"), layer])
    keras_sparse.optimizers.SGD(1.0).build(model.trainable_variables)
    layer.assign([2], [[7.0]])
    ids = tf.data.Dataset.from_tensor_slices([[1], [2], [3]]).batch(1)
    stages = keep_stages(monkeypatch)
    batches = iter(prefetch_lookups(ids, model, 1, 3, "stale"))
    first = next(batches)
    stages[0].wait(3)  # the one thread has the last of them in work at most
    assert layer(first).numpy().tolist() == [[[0]]]
    change(layer)
    assert layer(next(batches)).numpy().tolist() == [[[expected]]]
    stats = layer.stats()["prefetch"]
    assert (stats["used"], stats["dropped"], stats["staleness_max"]) == (1, 1, 0)


def test_evaluation_leaves_every_byte_and_gives_the_same(storage):
    data = cases.make_data()
    model = cases.make_model(storage)
    model.fit(data, **QUIET)
    before = cases.contents(model)
    expected = model.evaluate(data, verbose=0)
    for mode in ("exact", "stale"):
        assert model.evaluate(prefetch_lookups(data, model, 2, 3, mode), verbose=0) == expected
    for ours, theirs in zip(cases.contents(model), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("mode", ["exact", "stale"])
def test_batches_pass_as_they_are(mode):
    model = cases.make_model()
    sparse = tf.sparse.from_dense([[1, 0], [0, 2], [3, 0]])
    ragged = tf.ragged.constant([[1], [2, 3], []], dtype=tf.int64)
    x = {"a": [[1, 2], [3, 4], [5, 6]], "b": ragged, "c": sparse}
    elements = tf.data.Dataset.from_tensor_slices((x, [1.0, 2.0, 3.0], [0.1, 0.2, 0.3])).batch(2)
    select = lambda x, y, weight: {"of_a": x["a"], "of_b": x["b"]}  # noqa: E731
    ahead = prefetch_lookups(elements, model, 1, 1, mode, select)
    assert ahead.element_spec == elements.element_spec
    assert ahead.cardinality() == 2
    for ours, theirs in zip(ahead, elements, strict=True):
        tf.nest.map_structure(
            np.testing.assert_array_equal,
            *(tf.nest.flatten(each, expand_composites=True) for each in (ours, theirs)),
        )


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
def test_any_order_of_batches_is_harmless(storage, monkeypatch):
    data = cases.make_data()
    plain = cases.make_model()
    model = cases.make_model(storage)
    keep = lambda x, y: y[0, 0] > -0.5  # noqa: E731
    orders = [
        lambda ahead: ahead,
        lambda ahead: ahead.shuffle(5, seed=1),
        lambda ahead: ahead.filter(keep),
        lambda ahead: ahead.take(3),
        lambda ahead: ahead.prefetch(6).repeat(2),
        lambda ahead: tf.data.Dataset.zip(ahead, ahead).map(lambda one, other: one),
    ]
    stages = keep_stages(monkeypatch)
    for order in orders:
        ahead = prefetch_lookups(data, model, 2, 3)
        plain.fit(order(data), **QUIET)
        # In the order of the data, which comes first, steps wait for their batches.
        waiting = stages if order is orders[0] else ()
        model.fit(order(ahead), **QUIET, callbacks=waiting)
        cases.assert_same(model, plain)
    stats = cases.prefetch_stats(model)
    assert stats["dropped"] > 0
    assert stats["used"] > 0


def test_other_lookups_in_between_are_harmless(storage, monkeypatch):
    data, other = cases.make_data(), cases.make_data(seed=1)
    plain = cases.make_model()
    model = cases.make_model(storage)
    stages = keep_stages(monkeypatch)
    ahead = prefetch_lookups(data, model, 2, 3)
    beside = prefetch_lookups(other, model, 1, 2)
    for _ in range(2):
        plain.fit(data, validation_data=other, **QUIET)
        model.fit(ahead, validation_data=beside, **QUIET, callbacks=stages[:1])
        next(iter(ahead))  # an iterator that is left behind
        assert model.evaluate(other, verbose=0) == plain.evaluate(other, verbose=0)
    cases.assert_same(model, plain)
    assert cases.prefetch_stats(model)["used"] > 0


@pytest.mark.parametrize("capacity", ["auto", 2])
def test_a_dataset_may_go_while_its_batches_are_in_work(capacity):
    layer = keras_sparse.layers.Embedding(None, 256)
    model = keras.Sequential([keras.Input((200,), dtype="int64"), layer])
    of_others = stage_threads()
    for number in range(8):
        ids = (
            tf.data.Dataset.range(12)
            .map(lambda each: tf.range(200, dtype=tf.int64) + each)
            .batch(1)
        )
        batches = iter(prefetch_lookups(ids, model, 1, capacity, "stale"))
        first = next(batches)
        second = next(batches)
        if number % 2:
            layer(first)
        del batches, ids
        gc.collect()
        layer(second)  # perhaps what waited when its dataset went
    wait_for_stage_threads(0, of_others)


def train_in_turns(model, *datasets, stages=()):
    """Trains a step on a batch of each dataset in turn, until one ends.

    The first steps let the stages come to their batches.

    Returns:
        The lookups of each dataset's steps that were staged and used, in the datasets' order.
    """

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        variables = model.trainable_variables
        model.optimizer.apply(tape.gradient(loss, variables), variables)

    model.optimizer.build(model.trainable_variables)
    used = [0] * len(datasets)
    for number, batches in enumerate(zip(*datasets, strict=True)):
        for turn, (x, y) in enumerate(batches):
            before = cases.prefetch_stats(model)["used"]
            if stages and number == 0:
                stages[turn].wait()
            step(x, y)
            used[turn] += cases.prefetch_stats(model)["used"] - before
    return used


@functools.cache
def trained_in_turns(seed):
    model = cases.make_model()
    assert train_in_turns(model, cases.make_data(), cases.make_data(seed)) == [0, 0]
    return model


@pytest.mark.parametrize("of_other", [(1, 2), (2, 6)], ids=["alike", "further ahead"])
@pytest.mark.parametrize("seed", [0, 1], ids=["same batches", "other batches"])
def test_two_datasets_in_turns_train_as_without_stages(seed, of_other, tmp_path, monkeypatch):
    data, other = cases.make_data(), cases.make_data(seed)
    paths = iter([tmp_path / "a", tmp_path / "b"])
    model = cases.make_model(lambda: small(next(paths)))
    stages = keep_stages(monkeypatch)
    staged = [prefetch_lookups(data, model, 1, 2), prefetch_lookups(other, model, *of_other)]
    used = train_in_turns(model, *staged, stages=stages)
    assert all(number > 0 for number in used), used
    cases.assert_same(model, trained_in_turns(seed))
    stats = cases.prefetch_stats(model)
    assert stats["staged"] == 2 * 2 * cases.BATCHES, "of two tables, of two datasets"
    assert stats["used"] + stats["missed"] == stats["staged"]
    assert stats["staleness_max"] == 0
    assert model.get_layer("of_a").stats()["tiers"]["SSDHASH"]["read_bytes"] > 0
