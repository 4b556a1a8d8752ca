"""A small file that claims gigabytes is refused before memory is taken for them."""

import json
import shutil
import tracemalloc
import zlib

import h5py
import keras
import numpy as np
import pytest

import keras_sparse
from checkpoint_cases import edit_manifest
from checkpoint_cases import make_model
from checkpoint_cases import saved_parts
from checkpoint_cases import storage
from checkpoint_cases import train_all_keys
from keras_sparse.layers import Embedding
from keras_sparse.layers import IntegerLookup
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import verify

CLAIMED = 1 << 30
IDS = np.arange(12).reshape(6, 2)


def make_tables():
    inputs = keras.Input((2,), dtype="int64")
    dynamic = Embedding(
        None,
        2,
        "sum",
        admission=keras_sparse.CounterFilter(2),
        eviction=keras_sparse.GlobalStepEvict(9),
    )(inputs)
    static = Embedding(16, 2, "sum")(IntegerLookup(15)(inputs))
    model = keras.Model(inputs, keras.layers.Add()([dynamic, static]))
    model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse")
    return model


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    model = make_tables()
    model.fit(IDS, np.ones((6, 2)), verbose=0)
    model.fit(IDS[:3], np.ones((3, 2)), verbose=0)
    model.save_weights(folder / "model.weights.h5")
    stock = keras.Sequential([keras.Input((2,)), keras.layers.Embedding(8, 3)])
    stock.save_weights(folder / "stock.weights.h5")
    model = make_model(storage("DRAM_SSDHASH", folder / "tiers"))
    train_all_keys(model)
    save_checkpoint(model, folder / "checkpoint")
    return folder


def claim(path, name, num_bytes=CLAIMED):
    """Puts a dataset of which nothing is stored in the place of one."""
    with h5py.File(path, "a") as file:
        dtype, width = file[name].dtype, file[name].shape[1:]
        del file[name]
        length = num_bytes // int(np.prod(width, dtype=int)) // dtype.itemsize
        shape = (length, *width)
        file.create_dataset(name, shape, dtype, chunks=(1 << 16, *width))
    return shape


def assert_refused(match, load, *arguments):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=match):
            load(*arguments)
        assert tracemalloc.get_traced_memory()[1] < CLAIMED // 8
    finally:
        tracemalloc.stop()


OF_TABLES = [
    *(f"embedding/vars/{name}_000000" for name in ("keys", "records", "ages")),
    *(f"embedding/vars/filter_{name}_000000" for name in ("keys", "counts")),
    *(f"embedding_1/vars/{name}_000000" for name in ("keys", "records")),
    *(f"embedding_1/vars/{name}" for name in ("header", "header_crc32")),
]


@pytest.mark.filterwarnings("ignore:Skipping nested container")  # Keras' own
@pytest.mark.parametrize(
    "name", [*OF_TABLES, "integer_lookup/vars/keys", "integer_lookup/vars/counts"]
)
def test_a_weights_file(name, saved, tmp_path):
    path = shutil.copy(saved / "model.weights.h5", tmp_path)
    claim(path, f"layers/{name}")
    model = make_tables()
    model.optimizer.build(model.trainable_variables)
    assert_refused("must be in its file|must have the shapes", model.load_weights, path)
    if name in OF_TABLES:
        assert_refused("must be in its file|must have the shapes", verify, path)


def test_a_header_that_says_as_much(saved, tmp_path):
    path = shutil.copy(saved / "model.weights.h5", tmp_path)
    claimed = claim(path, "layers/embedding/vars/keys_000000")
    with h5py.File(path, "a") as file:
        group = file["layers/embedding/vars"]
        header = json.loads(np.asarray(group["header"]).tobytes())
        del header["ages"]
        header["chunks"][0] = [*claimed, 0, 0]
        del group["header"], group["header_crc32"]
        group["header"] = np.frombuffer(text := json.dumps(header).encode(), np.uint8)
        group["header_crc32"] = np.array(zlib.crc32(text), np.uint32)
    assert_refused("must be in its file", verify, path)


def test_weights_of_a_layer_of_keras(saved, tmp_path):
    path = shutil.copy(saved / "stock.weights.h5", tmp_path)
    model = keras.Sequential([keras.Input((2,)), Embedding(8, 3)])
    model.load_weights(path)
    claim(path, "layers/embedding/vars/0")
    assert_refused("must be loaded into a static table of their shape", model.load_weights, path)


@pytest.mark.parametrize(
    "dataset", ["keys_000000", "records_000000", "history_lengths", "history_numbers", "alive"]
)
def test_a_checkpoint(dataset, saved, tmp_path):
    folder = shutil.copytree(saved / "checkpoint", tmp_path / "checkpoint")

    def change(fields):
        name, path = f"/0/{dataset}", saved_parts(fields, "rows")[0]["file"]
        if dataset == "alive":
            segment = saved_parts(fields, "segment")[0]
            name, path = segment["alive_path"], segment["alive_file"]
        claim(folder / path, name)
        fields["file_bytes"][path] = (folder / path).stat().st_size

    edit_manifest(folder, change)
    for load in (verify, lambda path: load_checkpoint(make_model(), path)):
        assert_refused("must be in its file", load, folder)


def test_a_dataset_without_a_shape_is_left_out_where_a_file_is_loaded_by_names(saved, tmp_path):
    path = shutil.copy(saved / "model.weights.h5", tmp_path)
    with h5py.File(path, "a") as file:
        del file["layers/integer_lookup/vars/keys"]
        file["layers/integer_lookup/vars/keys"] = h5py.Empty("i8")
    model = make_tables()
    model.optimizer.build(model.trainable_variables)
    with pytest.warns(UserWarning, match="could not be loaded"):
        model.load_weights(path, skip_mismatch=True)
