"""Keras' files of a model that all ranks save: rank 0 writes them, or all ranks fail."""

import copy
import os
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.distribute.ranks.collectives import broadcast_object
from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.distribute.tables import distributed_table
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.saving.keras_files.table_holder import TableHolder

# The function has the name of its module.
save_table_module = sys.modules["keras_sparse.saving.keras_files.save_table"]

SIZES = [(12, 4), (9, 3), (None, 2)]
IDS = np.arange(9)[:, np.newaxis].repeat(2, 1)
CBF = keras_sparse.CBFFilter(1, 100, 0.01)


def make_model(seed=0, sizes=SIZES, **thresholds):
    layers = [
        Embedding(*size, "sum", seed=seed + i, admission=CBF if size[0] is None else None)
        for i, size in enumerate(sizes)
    ]
    ids = keras.Input((2,), dtype="int64")
    spread = DistributedEmbedding(layers, **thresholds)
    rows = keras.layers.Concatenate()(spread([ids] * len(sizes)))
    outputs = keras.layers.Dense(1, kernel_initializer="ones")(rows)
    model = keras.Model(ids, outputs)
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.Adagrad(0.1))
    model.compile(optimizer, loss="mse", run_eagerly=True)
    optimizer.build(model.trainable_variables)
    model.train_on_batch(IDS, np.ones((9, 1)))
    return model


def rows_of(model):
    return model(tf.constant(IDS)).numpy()


def assert_in_step(model, folder):
    """After an error ranks still hear each other, and save the model."""
    assert gather_objects(ksd.rank(), "in_step") == list(range(ksd.size()))
    path = folder / "whole.weights.h5"
    model.save_weights(path)
    expected = rows_of(model)
    for table in model.layers[1].tables:
        table.clear()
    assert not np.array_equal(rows_of(model), expected)
    model.load_weights(path)
    np.testing.assert_array_equal(rows_of(model), expected)


@pytest.fixture(name="model", scope="module")
def spread_model():
    return make_model(row_slice_threshold=40)


def test_rank_0_alone_writes_copies_too(folder):
    sizes = SIZES[:2]
    model, other = (make_model(i, sizes, data_parallel_threshold=100) for i in (0, 5))
    model.save(folder / "a.keras")
    model.save_weights(folder / "a.weights.h5")
    names = broadcast_object(sorted(os.listdir(folder)), 0, "names")
    assert names == ["a.keras", "a.weights.h5"]
    other.load_weights(folder / "a.weights.h5")
    np.testing.assert_array_equal(rows_of(other), rows_of(model))
    keras.saving.save_model(model, folder / "b.keras")  # as the method does
    assert sorted(path.name for path in folder.glob("*.keras")) == ["a.keras", "b.keras"]
    for name in ("a", "b"):
        loaded = keras.models.load_model(folder / f"{name}.keras")
        np.testing.assert_array_equal(rows_of(loaded), rows_of(model))


@pytest.mark.parametrize("what", ["model", "layer"])
def test_is_not_copied_in_memory(what, model, folder):
    with pytest.raises(RuntimeError, match=r"must be saved by.*make another model, and load"):
        copy.deepcopy(model if what == "model" else model.layers[1])
    assert_in_step(model, folder)


@pytest.mark.parametrize("name", ["a.keras", "a.weights.h5"])
def test_what_is_at_the_path_is_an_error_of_all(name, model, folder):
    path = folder / name
    with pytest.raises(FileNotFoundError, match="must be in a folder"):
        save(model, folder / "nowhere" / name)
    if ksd.rank() == 0:
        path.mkdir()
    with pytest.raises(IsADirectoryError):
        save(model, path)
    if ksd.rank() == 0:
        path.rmdir()
        path.write_text("before")
    assert broadcast_object(path.exists(), 0, "path")
    # Keras asks each of them whether to overwrite it, who have no terminal.
    with pytest.raises((EOFError, OSError)):
        save(model, path, overwrite=False)
    assert ksd.rank() != 0 or path.read_text() == "before"
    gather_objects(None, "asked")
    if ksd.rank() == 0:
        path.unlink()
    gather_objects(None, "removed")
    save(model, path, overwrite=False)
    assert ksd.rank() != 0 or path.stat().st_size > 0
    assert_in_step(model, folder)


def save(model, path, **kwargs):
    method = model.save if path.suffix == ".keras" else model.save_weights
    method(path, **kwargs)


def failing(function, after, error):
    """The function, which fails when it was called so often."""
    calls = []

    def fail_later(*args, **kwargs):
        calls.append(None)
        if len(calls) > after:
            raise error
        return function(*args, **kwargs)

    return fail_later


FULL = OSError(28, "No space left on device")
LAST = ksd.size() - 1


# The rank that fails, in what, after how many calls of it, and with which error.
@pytest.mark.parametrize(
    ("failing_rank", "owner", "name", "after", "error"),
    [
        # Before a table of three, of any kind.
        (0, TableHolder, "save_own_variables", 0, PermissionError("not here")),
        (LAST, TableHolder, "save_own_variables", 1, PermissionError("not here")),
        (0, TableHolder, "save_own_variables", 2, PermissionError("not here")),
        (LAST, TableHolder, "save_own_variables", 2, PermissionError("not here")),
        # After all tables.
        (0, keras.optimizers.Optimizer, "save_own_variables", 0, PermissionError("not here")),
        # In the middle of a table.
        *((0, save_table_module, "check_written", pieces, FULL) for pieces in range(3)),
        # With what the others have sent.
        (0, distributed_table, "JoinedRecords", 0, MemoryError("too much")),
        (0, distributed_table, "merge_filters", 0, MemoryError("too much")),
        # With rows of its own that cannot be read.
        (LAST, distributed_table._Records, "next", 1, OSError(5, "Input/output error")),
    ],
)
def test_a_rank_that_fails_keeps_none_waiting(
    failing_rank, owner, name, after, error, model, folder, monkeypatch
):
    monkeypatch.setattr(save_table_module, "CHUNK_BYTES", 64)  # tables of some pieces
    monkeypatch.setattr(save_table_module, "MAX_ENTRIES", 8)
    if ksd.rank() == failing_rank:
        monkeypatch.setattr(owner, name, failing(getattr(owner, name), after, error))
    with pytest.raises(type(error), match=error.args[-1]):
        save(model, folder / ("a.keras" if owner is TableHolder else "a.weights.h5"))
    monkeypatch.undo()
    assert_in_step(model, folder)
