"""A damaged checkpoint is a clear error and changes nothing; a killed process damages none."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import zlib

import pytest

from checkpoint_cases import content
from checkpoint_cases import make_model
from checkpoint_cases import storage
from checkpoint_cases import train
from checkpoint_cases import train_all_keys
from keras_sparse.saving import CheckpointDamagedError
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import save_delta
from keras_sparse.saving import verify

SUPPORT = pathlib.Path(__file__).parents[2] / "support"


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


def assert_refused(path, match):
    model = make_model()
    train(model, 9)
    before = content(model)
    for load in (verify, lambda path: load_checkpoint(model, path)):
        with pytest.raises(ValueError, match=match):
            load(path)
    assert content(model) == before


def test_whole_ones_are_accepted(saved):
    assert verify(saved / "full") == 2
    assert verify(saved / "delta") == 2


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


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def place_of_data(path):
    """A byte that matters: of a record that is a row, or of a chunk."""
    if path.suffix == ".seg":
        return None  # which entries are rows is told elsewhere: all bytes are tried
    return path.stat().st_size * 3 // 4


def test_a_flipped_byte_is_found(damaged):
    for path in files(damaged / "full"):
        whole = path.read_bytes()
        if path.suffix == ".seg":
            path.write_bytes(bytes(byte ^ 1 for byte in whole))
        else:
            flip(path, place_of_data(path))
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


def test_a_later_version_is_refused(damaged, monkeypatch):
    path = damaged / "full" / "manifest.json"
    lines = json.loads(path.read_text())["manifest"]
    text = "\n".join(lines).replace('"version": 1', '"version": 5')
    path.write_text(json.dumps({"crc32": zlib.crc32(text.encode()), "manifest": text.split("\n")}))
    assert_refused(damaged / "full", "of version 1 to 4.*Received: version 5")


SCRIPT = """
    import sys
    sys.path.insert(0, sys.argv[1])
    import pathlib
    from checkpoint_cases import make_model, storage, train
    from keras_sparse.saving import load_checkpoint, save_checkpoint, save_delta
    folder = pathlib.Path(sys.argv[2])
    model = make_model(storage("DRAM_SSDHASH", folder / "tiers"))
    for step in range(100000):
        train(model, step, 200)
        save = save_delta if step % 3 else save_checkpoint
        save(model, folder / "saved" / f"{step:06d}")
        print(step, flush=True)
"""


def test_kill_9_while_saving_leaves_the_last_one_whole(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), SUPPORT]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [*command, tmp_path], stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        for _ in range(5):
            process.stdout.readline()
        time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        printed = [int(line) for line in process.stdout.read().split()]
    names = sorted(path.name for path in (tmp_path / "saved").iterdir() if path.name[0] != ".")
    last = max([4, *printed])
    assert int(names[-1]) in (last, last + 1)
    expected = make_model()
    for step in range(int(names[-1]) + 1):
        train(expected, step, 200)
    loaded = make_model(storage("DRAM_SSDHASH", tmp_path / "tiers"))
    info = load_checkpoint(loaded, tmp_path / "saved" / names[-1])
    assert info.step == int(names[-1]) + 1
    assert content(loaded) == content(expected)
