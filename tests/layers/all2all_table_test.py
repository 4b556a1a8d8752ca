"""The table of SparseOperationKit's layers: its keys, and its limits and tiers together."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
from keras_sparse.layers import All2AllDenseEmbedding
from keras_sparse.layers import All2AllSparseEmbedding
from pairwise import each_pair


def dense(most_keys=100, **options):
    return All2AllDenseEmbedding(most_keys, 4, 1, 2, **{"seed": 1, **options})


def sparse(most_keys=100, **options):
    return All2AllSparseEmbedding("mean", most_keys, 4, 1, **{"seed": 1, **options})


both = pytest.mark.parametrize("make", [dense, sparse])


def model_of(layer, optimizer, **compile_options):
    keys = keras.Input((1, 2), dtype=layer.key_dtype)
    kernel = keras.initializers.Constant(0.5)
    outputs = keras.layers.Dense(1, kernel_initializer=kernel)(keras.layers.Flatten()(layer(keys)))
    model = keras.Model(keys, outputs)
    model.compile(optimizer, loss="mse", **compile_options)
    return model


def train(model, keys):
    """One step on as many samples as there are pairs of keys."""
    keys = np.reshape(keys, (-1, 1, 2))
    model.train_on_batch(keys, np.ones((len(keys), 1)))


def content(layer):
    """Rows and slots by key."""
    (table,) = layer.tables
    return checks.table_content(table)


def everything(model, layer):
    """The content of the table, and the weights of the dense layer."""
    return content(layer), [each.tolist() for each in model.layers[-1].get_weights()]


@both
def test_a_key_out_of_range_is_an_error_that_changes_nothing(make):
    layer = make(6, use_hashtable=False)
    model = model_of(layer, keras_sparse.optimizers.Adagrad(0.1), run_eagerly=make is sparse)
    train(model, [0, 5])
    before = everything(model, layer)
    for key in (-1, 6, 2**40):
        keys = np.array([[[1, 2]], [[3, key]]])
        words = rf"id must be in \[0, 6\) for table '.*embeddings'.*Received: ids\[3\] = {key}"
        for run in (layer, model.predict_on_batch, lambda keys: train(model, keys)):
            with pytest.raises(tf.errors.InvalidArgumentError, match=words):
                run(keys)
            assert everything(model, layer) == before
    train(model, [1, 2])
    changed = content(layer)
    assert {key for key, record in before[0].items() if changed[key] != record} == {1, 2}


@pytest.mark.parametrize(
    ("make", "dtype", "first"), [(dense, "uint32", 2**31), (sparse, "uint64", 2**63)]
)
def test_upper_half_of_unsigned_keys_trains_as_the_keys_of_the_same_int64(make, dtype, first):
    keys = np.array([[first, first + 1], [2 * first - 1, 5], [first, 5]], dtype)
    layers = [make(key_dtype=dtype), make()]
    models = [
        model_of(layer, keras_sparse.optimizers.Adagrad(0.1), run_eagerly=True) for layer in layers
    ]
    initial = layers[0](keys[:, np.newaxis]).numpy()
    for step in range(3):
        train(models[0], keys[step:])
        train(models[1], keys[step:].astype("int64"))
    rows = [content(layer) for layer in layers]
    assert rows[0].keys() == set(keys.astype("int64").ravel().tolist())
    assert rows[0] == rows[1]
    assert np.all(layers[0](keys[:, np.newaxis]) != initial)


def ssd(path, memory_bytes):
    return keras_sparse.StorageOption("DRAM_SSDHASH", path, [memory_bytes])


@each_pair(make=[dense, sparse], is_on_ssd=[False, True])
def test_a_full_vocabulary_is_an_error_that_changes_nothing(make, is_on_ssd, tmp_path):
    layer = make(400, storage=ssd(tmp_path / "rows", 8 << 10) if is_on_ssd else None)
    model = model_of(layer, keras_sparse.optimizers.Adagrad(0.1), run_eagerly=is_on_ssd)
    for first in (0, 200):
        train(model, np.arange(first, first + 200))
    if is_on_ssd:
        assert layer.stats()["embeddings"]["tiers"]["SSDHASH"]["rows"] > 100
    before = everything(model, layer)
    words = "`max_rows` of table '.*embeddings' must hold.*`max_vocabulary_size_per_gpu` in SOK's"
    with pytest.raises(tf.errors.ResourceExhaustedError, match=words):
        train(model, [1, 399, 2, 400])
    assert everything(model, layer) == before
    # Reading needs no room.
    assert np.isfinite(model.predict_on_batch(np.arange(600).reshape(-1, 1, 2))).all()
    train(model, [1, 399])
    changed = content(layer)
    assert {key for key, record in before[0].items() if changed[key] != record} == {1, 399}
    assert len(changed) == 400
