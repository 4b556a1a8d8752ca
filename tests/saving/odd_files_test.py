"""Files that no one would write are refused by name: none waits, none is a traceback."""

import os
import shutil
import stat
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
from checkpoint_cases import train
from keras_sparse.__main__ import main
from keras_sparse.callbacks import Checkpoint
from keras_sparse.distribute.planner.table_file import read_tables
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
        pytest.warns(UserWarning, match="follows what is whole"),
        pytest.raises(FileNotFoundError, match="none that is whole"),
    ):
        follow(model, folder / "run")
    assert main(["inspect", str(path)]) == 2
    assert "error: " in capsys.readouterr().err
    assert content(model) == before
    callback = Checkpoint(folder / "run", verbose=False)
    with (
        pytest.warns(UserWarning, match="A checkpoint was put aside"),
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
    with pytest.raises(ValueError, match="A file to read must be a regular one"):
        read_tables(path, 0)
    layer = keras_sparse.layers.DistributedEmbedding([keras.layers.Embedding(4, 2)])
    layer([np.array([1])])
    with pytest.raises(ValueError, match="A file to read must be a regular one"):
        layer.set_weights([path])
    nested(deep := tmp_path / "deep.json")
    with pytest.raises(ValueError, match="Tables must be JSON"):
        read_tables(deep, 0)
