import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

import checks
import keras_sparse
from keras_sparse.layers import Embedding
from keras_sparse.layers import IntegerLookup
from stages import keep_stages

EXTREMES = [-(2**63), -3, -2, -1, 0, 2**40, 2**63 - 1]


def seen(keys, max_tokens=100, **kwargs):
    """A layer that has seen these in training."""
    layer = IntegerLookup(max_tokens, **kwargs)
    layer(tf.constant(keys, tf.int64), training=True)
    return layer


def test_any_key_may_have_a_token():
    layer = seen(EXTREMES)
    np.testing.assert_array_equal(layer(tf.constant(EXTREMES, tf.int64)), range(1, 8))
    unsigned = tf.constant([2**64 - 1, 2**63], tf.uint64)  # the bits of -1 and of the smallest
    np.testing.assert_array_equal(layer(unsigned), [4, 1])


@pytest.mark.parametrize("training", [None, False])
def test_adds_and_counts_nothing_outside_of_training(training):
    layer = seen([4])
    np.testing.assert_array_equal(layer([4, 9], training=training), [1, 0])
    assert layer.get_vocabulary() == [-1, 4]
    np.testing.assert_array_equal(layer.counts, [0, 1])


@given(st.lists(st.lists(st.integers(-3, 12), max_size=20), max_size=6), st.integers(1, 8))
@settings(max_examples=40, deadline=None)
def test_agrees_with_a_dict(batches, max_tokens):
    layer, tokens, counts = IntegerLookup(max_tokens), {}, {0: 0}
    for batch in batches:
        for key in batch:
            if len(tokens) < max_tokens:
                tokens.setdefault(key, len(tokens) + 1)
            token = tokens.get(key, 0)
            counts[token] = counts.get(token, 0) + 1
        got = layer(tf.constant(batch, tf.int64), training=True)
        np.testing.assert_array_equal(got, [tokens.get(key, 0) for key in batch])
    assert layer.get_vocabulary() == [-1, *tokens]
    assert layer.counts.tolist() == [counts[token] for token in range(len(tokens) + 1)]


def test_agrees_with_keras_once_it_has_the_vocabulary():
    keys = np.random.default_rng(0).integers(0, 900, 2000)
    layer = seen(keys, 500)
    theirs = keras.layers.IntegerLookup(vocabulary=layer.get_vocabulary()[1:])
    np.testing.assert_array_equal(layer(np.arange(1024)), theirs(np.arange(1024)))


def test_takes_ragged_sparse_empty_and_small_integers():
    layer = seen([4, 5])
    ragged = tf.ragged.constant([[4], [], [5, 6]], dtype=tf.int64)
    assert layer(ragged).to_list() == [[1], [], [2, 0]]
    deep = tf.ragged.constant([[[4], [5, 5]], []], dtype=tf.int32)
    assert layer(deep).to_list() == [[[1], [2, 2]], []]
    sparse = tf.sparse.from_dense([[0, 4], [5, 0]])
    np.testing.assert_array_equal(tf.sparse.to_dense(layer(sparse)), [[0, 1], [2, 0]])
    assert layer(tf.zeros((0, 3), tf.int32)).shape == (0, 3)
    np.testing.assert_array_equal(layer(tf.constant([4, 6], tf.uint8)), [1, 0])
    assert layer(5).numpy() == 2


def test_symbolic_outputs_are_int64_of_the_inputs_shape_and_kind():
    for kind in ({}, {"ragged": True}, {"sparse": True}):
        inputs = keras.Input((None,), dtype="int32", **kind)
        outputs = IntegerLookup(3)(inputs)
        assert outputs.shape == (None, None)
        assert outputs.dtype == "int64"
        assert outputs.ragged == bool(kind.get("ragged"))
        assert outputs.sparse == bool(kind.get("sparse"))


def make_model(max_tokens, storage=None, run_eagerly=True):
    """With storage its table is dynamic, as it must be for that."""
    ids = keras.Input((2,), dtype="int64")
    tokens = IntegerLookup(max_tokens, name="lookup")(ids)
    num_rows = max_tokens + 1 if storage is None else None
    rows = Embedding(num_rows, 4, "sum", seed=1, storage=storage, name="rows")(tokens)
    model = keras.Model(ids, keras.layers.Dense(1, kernel_initializer="ones")(rows))
    model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse", run_eagerly=run_eagerly)
    return model


def make_data(low=0, high=50):
    rng = np.random.default_rng(2)
    return rng.integers(low, high, (64, 2)) * 1_000_003, rng.normal(size=(64, 1))


def test_fit_adds_keys_and_evaluation_does_not(tmp_path):
    model = make_model(20, run_eagerly=False)
    ids, targets = make_data()
    first = model.evaluate(ids, targets, verbose=0)
    layer = model.get_layer("lookup")
    assert layer.vocabulary_size() == 1
    model.fit(ids, targets, 16, epochs=2, shuffle=False, verbose=0)
    in_order = list(dict.fromkeys(ids.ravel().tolist()))
    assert layer.get_vocabulary() == [-1, *in_order[:20]]
    assert layer.counts.sum() == 2 * ids.size
    assert model.evaluate(ids, targets, verbose=0) < first
    model.predict(ids + 1, verbose=0)
    assert layer.vocabulary_size() == 21
    assert layer.counts.sum() == 2 * ids.size


def test_files_and_checkpoints_keep_tokens_and_counts(tmp_path):
    model = make_model(30)
    ids, targets = make_data()
    model.fit(ids, targets, 16, shuffle=False, verbose=0)
    layer = model.get_layer("lookup")
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    keras_sparse.saving.save_checkpoint(model, tmp_path / "checkpoint")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    others = [make_model(30), make_model(30)]
    for other in others:
        other.optimizer.build(other.trainable_variables)
    others[0].load_weights(tmp_path / "model.weights.h5")
    keras_sparse.saving.load_checkpoint(others[1], tmp_path / "checkpoint")
    for other in (loaded, *others):
        assert other.get_layer("lookup").get_vocabulary() == layer.get_vocabulary()
        np.testing.assert_array_equal(other.get_layer("lookup").counts, layer.counts)
        np.testing.assert_array_equal(other.predict(ids, verbose=0), model.predict(ids, verbose=0))
    # It goes on where it was.
    more = make_data(40, 90)
    for each in (model, loaded):
        each.fit(*more, 16, shuffle=False, verbose=0)
    assert loaded.get_layer("lookup").get_vocabulary() == layer.get_vocabulary()


@pytest.mark.parametrize("dtype_policy", ["mixed_float16"], indirect=True)
def test_a_global_policy_of_mixed_precision_casts_neither_keys_nor_tokens(dtype_policy, tmp_path):
    keys = np.arange(4000).reshape(-1, 2) * 1_000_003  # more than float16 has integers
    layer = IntegerLookup(4000)
    assert layer.compute_dtype == "int64"
    tokens = layer(keys, training=True)
    assert tokens.dtype == tf.int64
    np.testing.assert_array_equal(tokens, np.arange(1, 4001).reshape(-1, 2))
    model = make_model(4000)
    assert model.get_layer("lookup").output.dtype == "int64"
    assert model.output.dtype == "float16"
    model.fit(keys, np.ones((2000, 1)), 1000, shuffle=False, verbose=0)
    assert model.get_layer("lookup").get_vocabulary() == [-1, *keys.ravel().tolist()]
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.get_layer("lookup").get_vocabulary() == [-1, *keys.ravel().tolist()]
    np.testing.assert_array_equal(loaded.predict(keys, verbose=0), model.predict(keys, verbose=0))


def test_works_in_a_dataset():
    layer = IntegerLookup(10)
    ids = tf.data.Dataset.from_tensor_slices(np.array([[7, 8], [9, 7], [8, 8]]))
    tokens = ids.map(lambda each: layer(each, training=True))
    assert [each.tolist() for each in tokens.as_numpy_iterator()] == [[1, 2], [3, 1], [2, 2]]
    np.testing.assert_array_equal(layer.counts, [0, 2, 3, 1])
    tokens = ids.map(lambda each: layer(each + 1))
    assert [each.tolist() for each in tokens.as_numpy_iterator()] == [[2, 3], [0, 2], [3, 3]]
    assert layer.vocabulary_size() == 4


def test_config_makes_the_same_layer():
    config = IntegerLookup(7, name="tokens").get_config()
    again = IntegerLookup.from_config(config)
    assert again.get_config() == config
    assert again.max_tokens == 7


def test_takes_a_vocabulary():
    layer = IntegerLookup(3)
    layer.set_vocabulary([-1, 8, 9])
    np.testing.assert_array_equal(layer([9, 4, 8], training=True), [2, 3, 1])
    layer.set_vocabulary([-1, 5], [1, 2])
    np.testing.assert_array_equal(layer([9, 5]), [0, 1])
    np.testing.assert_array_equal(layer.counts, [1, 2])
    other = seen([30, -1, 7])
    layer.set_vocabulary(other.get_vocabulary(), other.counts)
    assert layer.get_vocabulary() == other.get_vocabulary() == [-1, 30, -1, 7]
    np.testing.assert_array_equal(layer.counts, other.counts)


OF_AN_OP = tf.errors.InvalidArgumentError


@pytest.mark.parametrize(
    ("keys", "counts", "error", "words"),
    [
        *[
            (keys, None, ValueError, "`vocabulary` must begin with -1")
            for keys in ([], [8, 9], [0], [[-1, 2]])
        ],
        *[
            (keys, None, TypeError, "`vocabulary` must be integers")
            for keys in ([-1.0, 2.5], ["-1", "2"], [True])
        ],
        ([-1, 1, 2, 3, 4], None, OF_AN_OP, "at most `max_tokens` keys. Received: 4 keys for max_t"),
        ([-1, 1, 1], None, OF_AN_OP, "each key once. Received: key 1 again at 1"),
        ([-1, 1], [0, -4], OF_AN_OP, "at least 0. Received: -4 at 1"),
        ([-1, 1, 2], [0, 0], OF_AN_OP, "Received: 2 counts for 2 keys"),
    ],
)
def test_refuses_what_is_no_vocabulary_and_keeps_its_own(keys, counts, error, words):
    layer = seen([6], 3)
    with pytest.raises(error, match=words):
        layer.set_vocabulary(keys, counts)
    assert layer.get_vocabulary() == [-1, 6]


def test_refuses_other_dtypes_and_sizes():
    with pytest.raises(TypeError, match="must be integers"):
        IntegerLookup(3)(tf.constant(["a"]))
    with pytest.raises(TypeError, match="must be integers"):
        IntegerLookup(3)(tf.constant([1.5]))
    for bad in (0, -1, 2**32):
        with pytest.raises(ValueError, match="`max_tokens` must be"):
            IntegerLookup(bad)


def test_prefetch_changes_nothing(tmp_path, monkeypatch):
    ids, targets = make_data()
    batches = tf.data.Dataset.from_tensor_slices((ids, targets)).batch(16)
    plain, model = (  # with memory for some of the rows
        make_model(
            30, keras_sparse.StorageOption("DRAM_SSDHASH", str(tmp_path / name), [600]), False
        )
        for name in "ab"
    )
    expected = plain.fit(batches, epochs=3, shuffle=False, verbose=0).history
    stages = keep_stages(monkeypatch)
    ahead = keras_sparse.data.prefetch_lookups(batches, model, 2, 4)
    fit = {"epochs": 3, "shuffle": False, "verbose": 0, "callbacks": stages}
    assert model.fit(ahead, **fit).history == expected
    layers = [each.get_layer("lookup") for each in (plain, model)]
    assert layers[0].get_vocabulary() == layers[1].get_vocabulary()
    np.testing.assert_array_equal(layers[0].counts, layers[1].counts)
    checks.assert_same_tables(*(each.get_layer("rows").embeddings for each in (plain, model)))
    stats = model.get_layer("rows").stats()
    assert stats["tiers"]["SSDHASH"]["rows"] > 0
    assert stats["prefetch"]["staged"] == 3 * len(batches)
    # Not those of the first epoch, staged when their keys had no tokens.
    assert stats["prefetch"]["used"] > 0
