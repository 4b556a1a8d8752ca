"""A damaged checkpoint is a clear error and changes nothing."""

import os
import shutil

import pytest

from checkpoint_cases import assert_refused
from checkpoint_cases import edit_manifest
from checkpoint_cases import make_model
from checkpoint_cases import storage
from checkpoint_cases import train
from checkpoint_cases import train_all_keys
from keras_sparse.saving import CheckpointDamagedError
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import save_delta
from keras_sparse.saving import verify


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A checkpoint of two data files and segments, and a delta."""
    folder = tmp_path_factory.mktemp("saved")
    model = make_model(storage("DRAM_SSDHASH", folder / "tiers"))
    train_all_keys(model)
    save_checkpoint(model, folder / "all" / "first")
    train(model, 1, 400)
    save_checkpoint(model, folder / "all" / "full")
    train(model, 2)
    save_delta(model, folder / "all" / "delta")
    return folder / "all"


@pytest.fixture
def damaged(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "damaged")


def files(folder):
    return sorted(path for path in folder.iterdir() if path.name != "manifest.json")


@pytest.mark.parametrize("name", ["full", "delta"])
def test_every_file_must_be_there_and_whole(name, damaged):
    folder = damaged / name
    assert len(files(folder)) >= 2
    for path in files(folder):
        path.rename(damaged / "aside")
        assert_refused(folder, f"all its files. .* without {path.name}")
        shutil.copy(damaged / "aside", path)
        os.truncate(path, path.stat().st_size - 1)
        assert_refused(folder, f"as long as they were.*{path.name}")
        (damaged / "aside").rename(path)
    assert verify(folder) == 2


def test_a_flipped_byte_is_found(damaged):
    for path in files(damaged / "full"):
        whole = path.read_bytes()
        flipped = bytearray(byte ^ 1 for byte in whole)
        if path.suffix != ".seg":  # which entries are rows is told elsewhere: all bytes are tried
            place = len(whole) * 3 // 4  # of a chunk
            flipped = whole[:place] + flipped[place : place + 1] + whole[place + 1 :]
        path.write_bytes(flipped)
        assert_refused(damaged / "full", path.name)
        path.write_bytes(whole)
    assert verify(damaged / "full") == 2


def test_a_file_that_ends_in_zeros_is_damage_of_one_class(damaged):
    """HDF5 has errors of many classes, by what it misses; some of the last bytes hold nothing."""
    for path in files(damaged / "full"):
        whole, found = path.read_bytes(), 0
        for eighths in range(1, 8):
            begin = len(whole) * eighths // 8
            path.write_bytes(whole[:begin] + bytes(len(whole) - begin))
            try:
                assert verify(damaged / "full") == 2
            except CheckpointDamagedError:
                found += 1
        assert found >= 4, path
        path.write_bytes(whole)


@pytest.mark.filterwarnings("ignore:Skipping nested container")  # Keras' own
def test_what_keras_cannot_read_is_damage_without_verification_too(damaged):
    path = damaged / "full" / "model.weights.h5"
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(CheckpointDamagedError, match=f"match their checksums.*{path.name}"):
        load_checkpoint(make_model(), damaged / "full", verify=False)


def test_a_damaged_manifest_is_refused(damaged):
    path = damaged / "full" / "manifest.json"
    whole = path.read_text()
    for text in ("", "{", whole.replace('step\\": 2', 'step\\": 3'), whole[:-100], "[]"):
        path.write_text(text)
        assert_refused(damaged / "full", "manifest must match its checksum")


@pytest.mark.parametrize(("field", "value"), [("keeps_ages", 1), ("ages_in_seconds", 1.0)])
def test_a_field_of_another_type_is_damage(field, value, damaged):
    edit_manifest(damaged / "full", lambda fields: fields["tables"][0].update({field: value}))
    with pytest.raises(CheckpointDamagedError, match=field):
        load_checkpoint(make_model(), damaged / "full")


def test_a_later_version_is_refused(damaged):
    edit_manifest(damaged / "full", lambda fields: fields.update(version=5))
    assert_refused(damaged / "full", "of version 1 to 4.*Received: version 5")
