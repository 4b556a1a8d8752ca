"""Files that we write are those that Keras writes."""

import io
import zipfile

import h5py
import keras
import numpy as np
import pytest
from keras.src.saving import saving_lib

from keras_sparse.keras_integration.write_files import write_archive
from keras_sparse.keras_integration.write_files import write_folder
from keras_sparse.keras_integration.write_files import write_weights
from keras_sparse.saving.keras_files.hdf5_write_errors import hdf5_write_errors


def make_model():
    """With assets, and an optimizer that has variables."""
    words = keras.Input((1,), dtype="string")
    lookup = keras.layers.StringLookup(vocabulary=["a", "b"])
    rows = keras.layers.Embedding(3, 2)(lookup(words))
    model = keras.Model(words, keras.layers.Dense(1)(rows))
    model.compile(keras.optimizers.Adam(0.1), loss="mse")
    model.optimizer.build(model.trainable_variables)
    return model


def arrays(file):
    found = {}

    def collect(name, each):
        found[name] = dict(each.attrs), each[()] if isinstance(each, h5py.Dataset) else None

    with h5py.File(file) as opened:
        opened.visititems(collect)
    assert len(found) > 10
    return found


def content(path):
    """What is in a `.keras` file, or in the folder of one; weights as arrays."""
    if path.is_dir():
        files = [each for each in path.rglob("*") if each.is_file()]
        found = {str(each.relative_to(path)): each.read_bytes() for each in files}
    else:
        with zipfile.ZipFile(path) as archive:
            assert all(each.compress_type == zipfile.ZIP_STORED for each in archive.infolist())
            found = {name: archive.read(name) for name in archive.namelist()}
    found.pop("metadata.json")  # has the time
    weights = found.pop("model.weights.h5")
    return found, arrays(io.BytesIO(weights))


@pytest.mark.parametrize(("write", "is_zipped"), [(write_archive, True), (write_folder, False)])
def test_a_model_is_written_as_keras_writes_it(write, is_zipped, tmp_path):
    model = make_model()
    names = ["ours.keras", "theirs.keras"] if is_zipped else ["ours", "theirs"]
    ours, theirs = (tmp_path / name for name in names)
    with hdf5_write_errors():
        write(model, str(ours))
    saving_lib.save_model(model, theirs, zipped=is_zipped)
    np.testing.assert_equal(content(ours), content(theirs))
    assert {path.name for path in tmp_path.iterdir()} == {*names}
    keras.saving.load_model(ours)


@pytest.mark.parametrize("max_shard_size", [None, 5e-8])
def test_weights_are_written_as_keras_writes_them(max_shard_size, tmp_path):
    model = make_model()
    for folder in ("ours", "theirs"):
        (tmp_path / folder).mkdir()
    name = "m.weights.h5" if max_shard_size is None else "m.weights.json"
    skipped = [model.layers[-1]]
    with hdf5_write_errors():
        write_weights(model, str(tmp_path / "ours" / name), max_shard_size, skipped)
    path = tmp_path / "theirs" / name
    saving_lib.save_weights_only(model, path, max_shard_size, skipped)
    files = [sorted((tmp_path / folder).iterdir()) for folder in ("ours", "theirs")]
    assert len(files[0]) > (1 if max_shard_size else 0)
    for ours, theirs in zip(*files, strict=True):
        assert ours.name == theirs.name
        if ours.suffix == ".json":
            assert ours.read_text() == theirs.read_text()
        elif max_shard_size is None:
            np.testing.assert_equal(arrays(ours), arrays(theirs))
