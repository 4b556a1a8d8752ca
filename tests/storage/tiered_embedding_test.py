"""A layer over memory and SSD: the same model, and no file left behind."""

import functools
import gc
import os

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse import StorageOption
from keras_sparse.native import library

ROWS = 3000


def make_model(storage, optimizer, run_eagerly=True):
    ids = keras.Input((None,), dtype="int64", ragged=True)
    layer = keras_sparse.layers.Embedding(None, 8, "mean", seed=1, storage=storage)
    kernel = keras.initializers.GlorotUniform(2)
    model = keras.Model(ids, keras.layers.Dense(1, kernel_initializer=kernel)(layer(ids)))
    model.compile(optimizer, loss="mse", run_eagerly=run_eagerly)
    return model


def small(path, strategy="LRU", storage_type="DRAM_SSDHASH"):
    tiers = storage_type.split("_")
    missing = set(tiers[1:]) - set(library.LOWER_TIERS)
    if missing:
        pytest.skip(f"this build has no {missing}")
    return StorageOption(storage_type, path, [20_000, 10_000][: len(tiers) - 1], strategy)


def data(seed, samples=1024):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 6, samples)
    ids = rng.zipf(1.3, lengths.sum()) % ROWS - ROWS // 2
    ragged = tf.RaggedTensor.from_row_lengths(ids.astype(np.int64), lengths)
    return tf.data.Dataset.from_tensor_slices((ragged, rng.normal(size=(samples, 1)))).batch(128)


def rows_of(model):
    table = model.layers[1].embeddings
    keys, records = (np.concatenate(parts) for parts in zip(*table.export(), strict=True))
    order = np.argsort(keys)
    return keys[order], records[order]


def trained(storage, name, seeds=(0,)):
    """A model that was trained on the data of these seeds, and what it said of itself."""
    optimizer = getattr(keras_sparse.optimizers, name)(0.05)
    model = make_model(storage, optimizer, run_eagerly=name == "Adam")
    said = []
    for seed in seeds:
        said += model.fit(data(seed), shuffle=False, verbose=0).history["loss"]
        said.append(model.evaluate(data(9), verbose=0))
    return model, said


@functools.cache
def in_memory(name, seeds=(0,)):
    """What a table in memory alone has then, and what its model says."""
    model, said = trained(None, name, seeds)
    return rows_of(model), said


def assert_rows(model, expected):
    for ours, theirs in zip(rows_of(model), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


# Every kind of tiers with moves to make up for; and other records.
TIERS = [
    ("DRAM_SSDHASH", "LRU"),
    ("DRAM_SSDHASH", "LFU"),
    ("DRAM_LEVELDB", "LRU"),
    ("DRAM_PMEM", "LRU"),
    ("DRAM_PMEM_SSDHASH", "LRU"),
    ("DRAM_PMEM_LEVELDB", "LFU"),
]
OTHERS = [(TIERS[0], "Adagrad"), (TIERS[-1], "LazyAdam"), (TIERS[0], "RowWiseAdagrad")]


@pytest.mark.parametrize(("tiers", "name"), [*((tiers, "Adam") for tiers in TIERS), *OTHERS])
def test_trains_as_in_memory_alone_bit_for_bit(tiers, name, tmp_path):
    storage_type, strategy = tiers
    storage = small(tmp_path / "ssd", strategy, storage_type)
    model, said = trained(storage, name, (0, 1))
    expected, expected_to_say = in_memory(name, (0, 1))
    assert said == expected_to_say
    assert_rows(model, expected)
    assert model.layers[1].embeddings.stats()["bytes"] > 20_000
    stores = {each.parent.name for each in (tmp_path / "ssd").rglob("keras_sparse-table-*/*/*")}
    assert len(stores) == len(storage_type.split("_")) - 1, "each tier has rows"


@pytest.mark.parametrize(("threads", "async_compaction"), [("0", "0"), ("0", "1"), ("3", "1")])
def test_threads_change_no_number(threads, async_compaction, tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_SPARSE_EVICTION_THREADS", threads)
    monkeypatch.setenv("KERAS_SPARSE_SSDHASH_ASYNC_COMPACTION", async_compaction)
    model, _ = trained(small(tmp_path / "ssd"), "Adam")
    assert_rows(model, in_memory("Adam")[0])


@pytest.mark.parametrize("storage_type", ["DRAM_SSDHASH", "DRAM_PMEM_SSDHASH"])
def test_direct_io_changes_no_number(storage_type, tmp_path, monkeypatch):
    try:
        os.close(os.open(tmp_path / "direct", os.O_CREAT | os.O_DIRECT))
    except OSError:
        pytest.skip("no direct I/O on this file system")
    monkeypatch.setenv("KERAS_SPARSE_SSDHASH_DIRECT_IO", "1")
    tiered, _ = trained(small(tmp_path / "ssd", storage_type=storage_type), "Adam")
    keras_sparse.saving.save_checkpoint(tiered, tmp_path / "saved")
    linked = list((tmp_path / "saved").glob("**/*.seg"))
    assert linked
    assert all(file.stat().st_size % 4096 == 0 for file in linked), "zeros up to whole blocks"
    keras_sparse.saving.verify(tmp_path / "saved")
    copy = make_model(None, keras_sparse.optimizers.Adam(0.05))
    keras_sparse.saving.load_checkpoint(copy, tmp_path / "saved")
    for model in (tiered, copy):
        assert_rows(model, in_memory("Adam")[0])


@pytest.mark.parametrize(
    ("variable", "bounds"),
    [("EVICTION_THREADS", "0 to 64"), ("SSDHASH_DIRECT_IO", "0 to 1")],
)
def test_a_number_that_is_none_is_refused(variable, bounds, tmp_path, monkeypatch):
    monkeypatch.setenv(f"KERAS_SPARSE_{variable}", "many")
    layer = keras_sparse.layers.Embedding(None, 8, storage=small(tmp_path / "ssd"))
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{variable} .* {bounds}"):
        layer.build()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("storage_type", ["DRAM_SSDHASH", "DRAM_PMEM_SSDHASH"])
def test_is_saved_and_loaded(storage_type, tmp_path):
    storage = small(tmp_path / "ssd", storage_type=storage_type)
    model = make_model(storage, keras_sparse.optimizers.LazyAdam(0.05))
    model.fit(data(0), shuffle=False, verbose=0)
    model.save(tmp_path / "model.keras")
    copy = keras.saving.load_model(tmp_path / "model.keras")
    assert copy.layers[1].storage.get_config() == model.layers[1].storage.get_config()
    for each in (model, copy):
        each.fit(data(1), shuffle=False, verbose=0)
    assert_rows(copy, rows_of(model))
    # Into memory alone, and back.
    plain = make_model(None, keras_sparse.optimizers.LazyAdam(0.05))
    plain.optimizer.build(plain.trainable_variables)
    model.save_weights(tmp_path / "m.weights.h5")
    plain.load_weights(tmp_path / "m.weights.h5")
    assert_rows(plain, rows_of(model))


@pytest.mark.parametrize("storage_type", ["DRAM_SSDHASH", "DRAM_PMEM_SSDHASH"])
def test_leaves_no_file_when_its_table_ends(storage_type, tmp_path):
    storage = small(tmp_path / "ssd", storage_type=storage_type)
    table = keras_sparse.EmbeddingVariable(None, 8, storage=storage)
    grads = tf.IndexedSlices(tf.ones((4000, 8)), tf.range(4000, dtype=tf.int64), (4000, 8))
    keras_sparse.optimizers.Adagrad(0.05).apply([grads], [table])
    assert table.stats()["rows"] == 4000  # which waits for what the background writes
    assert any((tmp_path / "ssd").rglob("*.seg"))
    del table
    gc.collect()
    assert not (tmp_path / "ssd").exists()


def test_tables_that_differ_in_a_long_path_alone_have_folders_of_their_own(tmp_path):
    """TensorFlow knows an eager op again by the beginnings of its attributes."""
    folders = [tmp_path / ("long" * 20) / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir(parents=True)
    options = {"name": "table", "seed": 1}
    tables = [
        keras_sparse.EmbeddingVariable(None, 2, storage=small(folder), **options)
        for folder in folders
    ]
    assert all(list(folder.iterdir()) for folder in folders)
    del tables
