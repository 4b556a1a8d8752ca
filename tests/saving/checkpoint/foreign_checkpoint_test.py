"""A checkpoint from elsewhere reads, links and writes nothing outside of its folder."""

import functools
import os
import shutil
import zlib

import h5py
import numpy as np
import pytest

from checkpoint_cases import assert_refused
from checkpoint_cases import content
from checkpoint_cases import edit_manifest
from checkpoint_cases import make_model
from checkpoint_cases import saved_parts
from checkpoint_cases import storage
from checkpoint_cases import train
from checkpoint_cases import train_all_keys
from keras_sparse.saving import CheckpointDamagedError
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import save_delta
from keras_sparse.saving import verify
from keras_sparse.saving.checkpoint.checkpoint_manifest import Manifest


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    model = make_model(storage("DRAM_SSDHASH", folder / "tiers"))
    train_all_keys(model)
    return save_checkpoint(model, folder / "saved", training={"epoch": 1})


@pytest.fixture
def foreign(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "outside")
    return shutil.copytree(saved, tmp_path / "foreign")


NAMED_BY = {
    "rows": lambda fields, name: saved_parts(fields, "rows")[0].update(file=name),
    "segment": lambda fields, name: saved_parts(fields, "segment")[0].update(file=name),
    "alive": lambda fields, name: saved_parts(fields, "segment")[0].update(alive_file=name),
    "sizes": lambda fields, name: fields["file_bytes"].update({name: 1}),
    "id": lambda fields, name: fields.update(id=f"/../{name}"),
}


@pytest.mark.parametrize("name", ["../outside/x", "/etc/passwd", "a/b", "..", "."])
@pytest.mark.parametrize("field", NAMED_BY)
def test_a_manifest_names_files_of_its_folder_alone(field, name, foreign):
    edit_manifest(foreign, lambda fields: NAMED_BY[field](fields, name))
    assert_refused(foreign, "name files of its own folder alone", also_unverified=True)


def test_every_file_that_is_named_has_its_size_there(foreign):
    name = next(foreign.glob("*.seg")).name
    edit_manifest(foreign, lambda fields: fields["file_bytes"].pop(name))
    assert_refused(foreign, f"as long as they were.*{name}", also_unverified=True)


@pytest.mark.parametrize("pattern", ["rows-*.h5", "*.seg", "model.weights.h5", "manifest.json"])
def test_a_link_is_not_followed(pattern, foreign):
    path = next(foreign.glob(pattern))
    path.unlink()
    path.symlink_to(foreign.parent / "outside" / path.name)
    assert_refused(foreign, f"no links are followed.*{path.name}", also_unverified=True)


@pytest.mark.parametrize("link", [h5py.ExternalLink("../outside/x.h5", "/x"), h5py.SoftLink("/x")])
@pytest.mark.parametrize("of_group", [True, False])
def test_links_within_a_file_are_not_followed(of_group, link, foreign):
    path = next(foreign.glob("rows-*.h5"))
    with h5py.File(path, "a") as file:
        name = "0" if of_group else "0/keys_000000"
        file.move(name, "x")
        file[name] = link
    size = path.stat().st_size
    edit_manifest(foreign, lambda fields: fields["file_bytes"].update({path.name: size}))
    assert_refused(foreign, "in one file. Received: link", also_unverified=True)


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("0/keys_000000", {}, "must have arrays under the names of its chunks"),
        ("0/keys_000000", h5py.Empty("int64"), "must have arrays under the names of its chunks"),
        ("0", np.zeros(3), "must lie in groups"),
    ],
    ids=["group", "empty", "path"],
)
def test_what_is_no_array_is_damage(name, content, match, foreign):
    path = next(foreign.glob("rows-*.h5"))
    with h5py.File(path, "a") as file:
        del file[name]
        if isinstance(content, dict):
            file.create_group(name)
        else:
            file[name] = content
    size = path.stat().st_size
    edit_manifest(foreign, lambda fields: fields["file_bytes"].update({path.name: size}))
    with pytest.raises(CheckpointDamagedError, match=f"{match}.*File: {path}"):
        verify(foreign)


@pytest.mark.parametrize("bases", [("foreign",), ("outside", "foreign")])
def test_deltas_that_go_back_to_themselves_are_refused(bases, foreign):
    for folder, base in zip(["foreign", *bases], bases, strict=False):
        named = {"path": base, "id": Manifest.read(foreign).id}
        edit_manifest(foreign.parent / folder, functools.partial(dict.update, base=named))
    with pytest.raises(CheckpointDamagedError, match=f"must go back to a checkpoint.*{foreign}'"):
        verify(foreign)


def test_a_file_that_became_a_link_is_not_taken_over(foreign, tmp_path):
    load_checkpoint(model := make_model(), foreign)
    path = next(foreign.glob("rows-*.h5"))
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    train(model, 1)
    saved = save_checkpoint(model, tmp_path / "saved")
    assert not any(each.is_symlink() or each.stat().st_nlink > 1 for each in saved.glob("*.h5"))
    load_checkpoint(loaded := make_model(), saved)
    assert content(loaded) == content(model)


def test_a_change_of_the_manifest_goes_through_no_link(foreign, tmp_path):
    (tmp_path / "precious").write_text("text")
    os.symlink(tmp_path / "precious", foreign / "manifest.json.new")
    Manifest.read(foreign).replace_training(foreign, {"epoch": 2})
    assert (tmp_path / "precious").read_text() == "text"
    assert Manifest.read(foreign).training == {"epoch": 2}


def test_more_entries_than_a_segment_has_take_no_memory(foreign):
    def claim(fields):
        segment = saved_parts(fields, "segment")[0]
        alive = np.full(2**16, 255, np.uint8)
        segment["num_entries"] = segment["num_rows"] = 8 * len(alive)
        segment["alive_crc32"] = zlib.crc32(alive)
        with h5py.File(foreign / segment["alive_file"], "a") as file:
            del file[segment["alive_path"]]
            file[segment["alive_path"]] = alive
        fields["tables"][0]["parts"] = [segment]
        name = segment["alive_file"]
        fields["file_bytes"][name] = (foreign / name).stat().st_size

    edit_manifest(foreign, claim)
    with pytest.raises(ValueError, match="as long as its entries"):
        verify(foreign)


def test_records_wider_than_row_and_slots_take_no_memory(foreign):
    edit_manifest(foreign, lambda fields: fields["tables"][0].update(record_words=2**50))
    assert_refused(foreign, "`record_words` must be those of row and slots", also_unverified=True)


# A damaged checkpoint is a clear error and changes nothing.
@pytest.fixture(scope="module")
def saved_checkpoint(tmp_path_factory):
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
def damaged(saved_checkpoint, tmp_path):
    return shutil.copytree(saved_checkpoint, tmp_path / "damaged")


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
    edit_manifest(damaged / "full", lambda fields: fields.update(version=6))
    assert_refused(damaged / "full", "of version 1 to 5.*Received: version 6")
