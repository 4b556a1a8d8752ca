"""Files changed at random are read as they were saved, or refused and the model stays as it was.

60 changes, the same each time, or as many as `KERAS_SPARSE_FUZZ_SECONDS` last: `make fuzz` takes a
minute a format, from another `KERAS_SPARSE_FUZZ_SEED` each time.
"""

import functools
import os
import pathlib
import shutil
import time
import zipfile
import zlib

import keras
import numpy as np
import pytest

import checkpoint_cases
import checks
import keras_sparse
from keras_sparse.layers import Embedding
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import save_delta
from keras_sparse.saving import verify

IDS = np.arange(8).reshape(4, 2)
# All that says that a file is none, or none of this model; of a `.keras` file Keras says it first.
REFUSALS = (OSError, ValueError)
REFUSALS_OF_KERAS = (
    *REFUSALS, TypeError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def make_model(storage=None):
    inputs = keras.Input((2,), dtype="int64")
    tables = [
        Embedding(None, 3, "sum", seed=1, storage=storage),
        Embedding(8, 2, "mean", seed=2),
    ]
    outputs = keras.layers.Dense(1)(keras.layers.Concatenate()([each(inputs) for each in tables]))
    model = keras.Model(inputs, outputs)
    model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse", run_eagerly=True)
    return model


def train(model, ids=IDS):
    model.train_on_batch(ids, np.ones((len(ids), 1)))
    return model


def table_contents(model):
    return [checks.table_content(table) for table in checkpoint_cases.tables(model)]


def change(path, rng):
    """Changes a file in a few places as disks, copies and people do."""
    data = bytearray(path.read_bytes())
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(data) + 1))
        size = int(rng.choice([1, 1, 4, 8, 64, 512]))
        kind = rng.integers(5)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            data[at : at + size] = bytes(len(data[at : at + size]))
        elif kind == 2:
            data[at : at + size] = rng.bytes(len(data[at : at + size]))
        elif kind == 3:
            del data[at:]
        else:
            data[at:at] = data[at // 2 : at // 2 + size]
    path.write_bytes(data)


def each_change(folder, tmp_path):
    """Copies of a folder, in each of which one file is changed."""
    seed = int(os.environ.get("KERAS_SPARSE_FUZZ_SEED", 1))
    seconds = float(os.environ.get("KERAS_SPARSE_FUZZ_SECONDS", 0))
    rng = np.random.default_rng(seed)
    end = time.monotonic() + seconds
    count = 0
    while count < 60 or time.monotonic() < end:
        copy = pathlib.Path(shutil.copytree(folder, tmp_path / "changed"))
        path = rng.choice(sorted(each for each in copy.rglob("*") if each.is_file()))
        change(path, rng)
        print(f"seed {seed}, change {count}: {path}")  # what pytest shows of a failure
        yield copy
        shutil.rmtree(copy)
        count += 1


def is_taken(load, *args, refusals=REFUSALS):
    """Whether a file is taken: what else happens is a fault."""
    try:
        load(*args)
    except refusals as error:
        print(f"refused: {error}")
        return False
    return True


def check(model, load, path, good):
    """Loads into a model that goes on meanwhile; returns whether the file was taken."""
    train(model)
    before = repr(checkpoint_cases.content(model))  # a dense weight may have become NaN before
    taken = is_taken(load, path)
    if taken:
        assert table_contents(model) == good
    else:
        assert repr(checkpoint_cases.content(model)) == before
    return taken


def test_checkpoints(tmp_path):
    saved = tmp_path / "saved"
    storage = keras_sparse.StorageOption("DRAM_SSDHASH", tmp_path / "tiers", [4096, 1 << 20])
    model = train(make_model(storage))
    save_checkpoint(model, saved / "full")
    save_delta(train(model, IDS[:2]), saved / "delta")
    model = train(make_model())
    load_checkpoint(model, saved / "delta")
    good = checkpoint_cases.content(model)
    takes = []
    for copy in each_change(saved, tmp_path):
        load = functools.partial(load_checkpoint, model)
        takes.append(check(model, load, copy / "delta", good[:2]))
        if takes[-1]:
            assert checkpoint_cases.content(model) == good
            verify(copy / "delta")
    # What HDF5 leaves unused, and what the delta has replaced, may be anything.
    assert np.mean(takes) < 0.5


@pytest.fixture
def saved(tmp_path):
    """A folder, a trained model to save there, and what its tables have."""
    folder = tmp_path / "saved"
    folder.mkdir()
    model = train(make_model())
    return folder, model, table_contents(model)


# Of the optimizer's own variables Keras warns, and leaves them as they are; so it does of the other
# paths by which it looks for what it could not load.
@pytest.mark.filterwarnings("ignore:Skipping variable loading for optimizer")
@pytest.mark.filterwarnings("ignore:Skipping nested container")
def test_weights(saved, tmp_path):
    folder, model, good = saved
    model.save_weights(folder / "some.weights.h5")
    for copy in each_change(folder, tmp_path):
        check(model, model.load_weights, copy / "some.weights.h5", good)


def test_models(saved, tmp_path):
    folder, model, good = saved
    model.save(folder / "some.keras")
    for copy in each_change(folder, tmp_path):
        if is_taken(keras.saving.load_model, copy / "some.keras", refusals=REFUSALS_OF_KERAS):
            assert table_contents(keras.saving.load_model(copy / "some.keras")) == good
