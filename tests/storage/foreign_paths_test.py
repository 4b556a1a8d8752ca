"""A model file makes files where must be accepted by this program, and nowhere else."""

import json
import os
import zipfile

import keras
import numpy as np
import pytest

import keras_sparse
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding

IDS = np.array([[1, 2], [3, 4]])


def of_one_layer(storage):
    return keras.Sequential(
        [keras.Input((2,), dtype="int64"), Embedding(None, 4, "sum", storage=storage)]
    )


def of_several_tables(storage):
    inputs = keras.Input((2,), dtype="int64")
    tables = DistributedEmbedding([Embedding(None, 4, "sum", storage=storage)])
    return keras.Model(inputs, tables([inputs]))


@pytest.fixture(params=[of_one_layer, of_several_tables])
def saved(request, tmp_path):
    """A file whose author had their tiers in a folder of this place; and that folder."""
    here, there = str(tmp_path / "author"), str(tmp_path / "there" / "rows")
    model = request.param(keras_sparse.StorageOption("DRAM_SSDHASH", here))
    model.save(tmp_path / "author.keras")
    with zipfile.ZipFile(tmp_path / "author.keras") as author:
        content = {name: author.read(name) for name in author.namelist()}
    content["config.json"] = content["config.json"].replace(
        json.dumps(here).encode(), json.dumps(there).encode()
    )
    with zipfile.ZipFile(tmp_path / "model.keras", "w") as changed:
        for name, data in content.items():
            changed.writestr(name, data)
    return tmp_path / "model.keras", tmp_path / "there"


def name_it(folder, monkeypatch):
    keras_sparse.StorageOption("DRAM_SSDHASH", folder / "rows")


def set_variable(folder, monkeypatch):
    value = os.pathsep.join(["/elsewhere", str(folder)])
    monkeypatch.setenv("KERAS_SPARSE_STORAGE_PATHS", value)


def set_variable_to_a_longer_name(folder, monkeypatch):
    monkeypatch.setenv("KERAS_SPARSE_STORAGE_PATHS", f"{folder}/rowsandmore:{folder}/rows/more")


def do_nothing(folder, monkeypatch):
    pass


@pytest.mark.parametrize("prepare", [do_nothing, set_variable_to_a_longer_name])
def test_a_path_that_nobody_agreed_to_is_refused(prepare, saved, monkeypatch):
    path, folder = saved
    prepare(folder, monkeypatch)
    # Keras wraps the error.
    refused = pytest.raises((TypeError, ValueError), match="must be accepted by this program")
    with refused:
        keras.saving.load_model(path)
    with zipfile.ZipFile(path) as file, refused:
        keras.models.model_from_json(file.read("config.json"))
    assert not folder.exists()


@pytest.mark.parametrize(
    ("prepare", "safe_mode"), [(name_it, True), (set_variable, True), (do_nothing, False)]
)
def test_a_path_that_is_agreed_to_is_taken(prepare, safe_mode, saved, monkeypatch):
    path, folder = saved
    prepare(folder, monkeypatch)
    model = keras.saving.load_model(path, safe_mode=safe_mode)
    assert folder.exists()
    assert np.shape(keras.tree.flatten(model(IDS))[0]) == (2, 4)


@pytest.mark.parametrize("is_relative", [False, True])
def test_what_a_program_makes_itself_is_its_own(is_relative, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "rows" if is_relative else str(tmp_path / "rows")
    model = of_one_layer(keras_sparse.StorageOption("DRAM_SSDHASH", rows))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    keras.models.clone_model(model)
    type(model).from_config(model.get_config())
    Embedding.from_config(model.layers[0].get_config())
    config = {**model.layers[0].storage.get_config(), "storage_path": str(tmp_path / "other")}
    keras_sparse.StorageOption.from_config(config)
