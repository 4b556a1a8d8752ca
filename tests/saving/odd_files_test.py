"""Files that no one would write are refused by name: none waits, none is a traceback."""

import json
import os
import shutil
import stat
import tracemalloc
import zlib

import h5py
import keras
import numpy as np
import pytest

import keras_sparse
from checkpoint_cases import content
from checkpoint_cases import edit_manifest
from checkpoint_cases import fit
from checkpoint_cases import make_model
from checkpoint_cases import saved_parts
from checkpoint_cases import storage
from checkpoint_cases import train
from checkpoint_cases import train_all_keys
from keras_sparse.__main__ import main
from keras_sparse.callbacks import Checkpoint
from keras_sparse.distribute.planner.table_file import read_tables
from keras_sparse.layers import Embedding
from keras_sparse.layers import IntegerLookup
from keras_sparse.saving import CheckpointDamagedError
from keras_sparse.saving import follow
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import verify


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    model = make_model()
    train(model, 0)
    save_checkpoint(model, folder / "run" / "step-000000001", verbose=False)
    model.save_weights(folder / "m.weights.h5")
    model.save_weights(folder / "m.weights.json", max_shard_size=0.01)
    model.save(folder / "m.keras")
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "saved")


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def listening(path):
    path.unlink()
    os.mknod(path, stat.S_IFSOCK | 0o600)


def directory(path):
    path.unlink()
    path.mkdir()


def device(path):
    path.unlink()
    path.symlink_to("/dev/zero")


def nested(path):
    path.write_bytes(b"[" * 100_000)


def zip_field(at, value):
    """Changes a field of all entries of a zip file, which is there twice."""

    def change(path):
        data = bytearray(path.read_bytes())
        for signature, place in ((b"PK\x01\x02", at), (b"PK\x03\x04", at - 2)):
            start = 0
            while (start := data.find(signature, start)) >= 0:
                data[start + place] = value
                start += 4
        path.write_bytes(data)

    return change


def manifest_field(change):
    return lambda path: edit_manifest(path.parent, change)


NO_FILES = {"pipe": pipe, "socket": listening, "directory": directory}
MANIFESTS = {
    **NO_FILES,
    "nested": nested,
    "no version": manifest_field(lambda fields: fields.pop("version")),
    "list": manifest_field(lambda fields: fields.update(tables=[[]])),
    "rows": manifest_field(lambda f: f["tables"][0]["parts"][0]["chunks"][0].__setitem__(0, "x")),
    "sizes": manifest_field(lambda fields: fields.update(file_bytes=[1])),
    "step": manifest_field(lambda fields: fields.update(step="x")),
    "history": manifest_field(lambda f: f["tables"][1]["history"].update(num_runs=None)),
}


@pytest.mark.parametrize("odd", MANIFESTS)
def test_an_odd_manifest_is_damage(odd, folder, capsys):
    path = folder / "run" / "step-000000001"
    MANIFESTS[odd](path / "manifest.json")
    model = make_model()
    before = content(model)
    for read in (verify, lambda path: load_checkpoint(model, path)):
        with pytest.raises(CheckpointDamagedError):
            read(path)
    with (
        pytest.warns(UserWarning, match="A damaged checkpoint was skipped"),
        pytest.raises(FileNotFoundError, match="without a whole one"),
    ):
        follow(model, folder / "run")
    assert main(["inspect", str(path)]) == 2
    assert "error: " in capsys.readouterr().err
    assert content(model) == before
    callback = Checkpoint(folder / "run", verbose=False)
    with (
        pytest.warns(UserWarning, match="A checkpoint was renamed"),
        pytest.raises(RuntimeError, match="must find a whole checkpoint"),
    ):
        fit(make_model(compiled=True), [callback])
    assert (folder / "run" / "step-000000001.damaged").exists()


@pytest.mark.parametrize("odd", NO_FILES)
def test_another_file_of_a_checkpoint_must_be_one(odd, folder):
    path = folder / "run" / "step-000000001"
    for name in ("model.weights.h5", next(each.name for each in path.glob("rows-*"))):
        copy = shutil.copytree(path, folder / f"{odd}-{name}")
        NO_FILES[odd](copy / name)
        with pytest.raises(CheckpointDamagedError, match="must have all its files"):
            load_checkpoint(make_model(), copy)


WEIGHTS = {
    **{
        f"{odd} {kind}": (kind, NO_FILES[odd])
        for odd in NO_FILES
        for kind in ("weights.h5", "keras")
    },
    **{f"{odd} map": ("weights.json", NO_FILES[odd]) for odd in ("pipe", "socket")},
    "device": ("weights.h5", device),
    "nested map": ("weights.json", nested),
    "list as map": ("weights.json", lambda path: path.write_text('{"weight_map": [1]}')),
    "number as file": ("weights.json", lambda path: path.write_text('{"weight_map": {"a": 1}}')),
    "later zip": ("keras", zip_field(6, 99)),
    "encrypted": ("keras", zip_field(8, 1)),
    "unknown method": ("keras", zip_field(10, 99)),
}


@pytest.mark.parametrize("odd", WEIGHTS)
def test_odd_weights_are_refused(odd, folder, capsys):
    kind, change = WEIGHTS[odd]
    change(path := folder / f"m.{kind}")
    model = make_model()
    before = content(model)
    reads = [] if path.is_dir() else [verify]  # which takes a folder for a checkpoint
    for read in (*reads, model.load_weights):
        with pytest.raises((ValueError, OSError), match="must be"):
            read(path)
    assert main(["inspect", str(path)]) == 2
    assert "error: " in capsys.readouterr().err
    assert content(model) == before


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"format": "keras_sparse table"}', b"[]"])
def test_an_odd_header_of_a_table_is_damage(content, folder):
    path = folder / "m.weights.h5"
    with h5py.File(path, "r+") as file:
        table = file["layers/embedding/vars"]
        del table["header"], table["header_crc32"]
        table["header"] = np.frombuffer(content, np.uint8)
        table["header_crc32"] = np.uint32(zlib.crc32(content))
    for read in (verify, make_model().load_weights):
        with pytest.raises(ValueError, match="The file is damaged"):
            read(path)


def test_a_url_that_cannot_be_read_is_an_error_of_the_command(capsys):
    assert main(["inspect", "gs:///m.weights.h5"]) == 2
    assert main(["inspect", "nowhere://m.weights.h5"]) == 2
    assert "must be one that `tf.io.gfile` can read" in capsys.readouterr().err


def test_a_pipe_with_the_name_of_a_partial_folder_stays(tmp_path):
    path = tmp_path / ".saved.0123456789abcdef.partial"
    os.mkfifo(path)
    save_checkpoint(make_model(), tmp_path / "saved", verbose=False)
    assert path.is_fifo()


def test_other_files_to_read_must_be_files_too(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(ValueError, match="A file to read must be a regular file"):
        read_tables(path, 0)
    layer = keras_sparse.layers.DistributedEmbedding([keras.layers.Embedding(4, 2)])
    layer([np.array([1])])
    with pytest.raises(ValueError, match="A file to read must be a regular file"):
        layer.set_weights([path])
    nested(deep := tmp_path / "deep.json")
    with pytest.raises(ValueError, match="Tables must be JSON"):
        read_tables(deep, 0)


# A small file that claims gigabytes is refused before memory is taken for them.
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
def saved_tables(tmp_path_factory):
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
def test_a_weights_file(name, saved_tables, tmp_path):
    path = shutil.copy(saved_tables / "model.weights.h5", tmp_path)
    claim(path, f"layers/{name}")
    model = make_tables()
    model.optimizer.build(model.trainable_variables)
    assert_refused("must be in its file|must have the shapes", model.load_weights, path)
    if name in OF_TABLES:
        assert_refused("must be in its file|must have the shapes", verify, path)


def test_a_header_that_says_as_much(saved_tables, tmp_path):
    path = shutil.copy(saved_tables / "model.weights.h5", tmp_path)
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


def test_weights_of_a_layer_of_keras(saved_tables, tmp_path):
    path = shutil.copy(saved_tables / "stock.weights.h5", tmp_path)
    model = keras.Sequential([keras.Input((2,)), Embedding(8, 3)])
    model.load_weights(path)
    claim(path, "layers/embedding/vars/0")
    assert_refused("must be loaded into a static table of their shape", model.load_weights, path)


@pytest.mark.parametrize(
    "dataset", ["keys_000000", "records_000000", "history_lengths", "history_numbers", "alive"]
)
def test_a_checkpoint(dataset, saved_tables, tmp_path):
    folder = shutil.copytree(saved_tables / "checkpoint", tmp_path / "checkpoint")

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


def test_a_dataset_without_a_shape_is_left_out_where_a_file_is_loaded_by_names(
    saved_tables, tmp_path
):
    path = shutil.copy(saved_tables / "model.weights.h5", tmp_path)
    with h5py.File(path, "a") as file:
        del file["layers/integer_lookup/vars/keys"]
        file["layers/integer_lookup/vars/keys"] = h5py.Empty("i8")
    model = make_tables()
    model.optimizer.build(model.trainable_variables)
    with pytest.warns(UserWarning, match="could not be loaded"):
        model.load_weights(path, skip_mismatch=True)
