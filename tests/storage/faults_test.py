"""What a table over tiers does when its storage fails: a clear error, and no row lost or wrong."""

import contextlib
import gc
import os
import pathlib
import re
import shutil
import tempfile

import numpy as np
import pytest
import tensorflow as tf

from small_disks import files_of_at_most
from small_disks import run_with_mounts
from table_twins import KINDS
from table_twins import RECORD_BYTES
from table_twins import small
from table_twins import Twins

STRIDE = RECORD_BYTES + 12  # docs/formats/ssdhash.md
NOBODY = 65534


@contextlib.contextmanager
def closed(folder, mode=0o555):
    """To this user, or to `nobody` in the place of root, a folder and those in it are of a mode.

    Args:
        folder: `pathlib.Path`.
        mode: Integer. Defaults to that of folders which cannot be changed.
    """
    is_root = os.geteuid() == 0
    folders = [folder, *(each for each in folder.rglob("*") if each.is_dir())]
    for each in folders:
        each.chmod(mode)
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        for each in folders:
            each.chmod(0o755)


@pytest.fixture
def shared_folder():
    """A folder that any user may come to, as pytest's own are this user's alone."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder).chmod(0o755)
        yield pathlib.Path(folder)


def fails(twins, error, words):
    """Trains until a step fails so, and again; nothing has changed by then."""
    for _ in range(2):
        with pytest.raises(error, match=words):
            train_until_written(twins)
        twins.check()


def train_until_written(twins):
    twins.train_some(100)
    # A busy thread may have left them all in its queue, whose error the next step shows.
    twins.wait_until_written()
    twins.train_some(1)


@pytest.mark.parametrize("threads", ["0", "1"])
@pytest.mark.parametrize(
    ("storage_type", "words"),
    [
        ("DRAM_SSDHASH", r"could not write at byte 20000 of '.*ssd/.*\.seg': File too large"),
        ("DRAM_PMEM", r"could not reserve and map \d+ bytes of '.*ssd/.*\.pmem': File too large"),
        ("DRAM_LEVELDB", r"LevelDB in '.*ssd/.*/leveldb-1': .*/\d+\.log: File too large"),
    ],
)
def test_a_full_disk_loses_no_row(storage_type, words, threads, tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_SPARSE_EVICTION_THREADS", threads)
    twins = Twins(small(tmp_path / "ssd", storage_type))
    twins.train_some(5)
    twins.wait_until_written()
    with files_of_at_most(20_000):
        fails(twins, tf.errors.ResourceExhaustedError, words)
    twins.train_some(10)
    twins.check()
    assert twins.tiered.stats()["rows"] == twins.plain.stats()["rows"]


SMALL_DISK = """
import sys
import faults_test, small_disks, table_twins, tensorflow as tf
for kind in sys.argv[2:]:
    disk = f"{sys.argv[1]}/{kind}"
    small_disks.mount(disk, "600k")
    twins = table_twins.Twins(table_twins.small(f"{disk}/rows", kind))
    faults_test.fails(twins, tf.errors.ResourceExhaustedError, "No space left on device")
    small_disks.resize(disk, "100m")
    twins.train_some(10)
    twins.check()
"""


@pytest.mark.slow("starts processes")
def test_a_small_disk_that_is_made_larger_loses_no_row(tmp_path):
    run_with_mounts(SMALL_DISK, tmp_path, *KINDS)


@pytest.mark.parametrize(
    ("storage_type", "file"), [("DRAM_SSDHASH", "000000.seg"), ("DRAM_PMEM", "000000.pmem")]
)
def test_a_flipped_byte_is_an_error_of_its_row_alone(storage_type, file, tmp_path):
    twins = Twins(small(tmp_path, storage_type))
    for begin in range(0, 2000, 200):
        twins.train(np.arange(begin, begin + 200))
    twins.wait_until_written()
    (path,) = tmp_path.rglob(file)
    begin = 64 + 5 * STRIDE
    whole = path.read_bytes()[begin : begin + STRIDE]
    key = int.from_bytes(whole[:8], "little")
    words = f"the entry at byte {begin} of '{re.escape(str(path))}' must be what was written"
    for byte in (0, 8, 12, STRIDE - 1):  # of the key, of the checksum, of the record
        write(path, begin + byte, bytes([whole[byte] ^ 1]))
        refuses(twins, key, words)
        write(path, begin, whole)
    twins.check()


def write(path, offset, data):
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def refuses(twins, key, words):
    """A lookup that needs the row of this key is an error, and no other is."""
    with pytest.raises(tf.errors.DataLossError, match=words):
        twins.check()
    with pytest.raises(tf.errors.DataLossError, match=words):
        twins.train([key, 4000])
    with pytest.raises(tf.errors.DataLossError, match=words):
        list(twins.tiered.export())
    twins.check(but=[key])


@pytest.mark.parametrize("storage_type", ["DRAM_SSDHASH", "DRAM_PMEM", "DRAM_LEVELDB"])
def test_any_name_may_be_that_of_the_folder(storage_type, tmp_path):
    name = "two words/fünf 行/line\nbreak/'quoted' % \\ \t"
    twins = Twins(small(tmp_path / name, storage_type))
    twins.train_some(5)
    twins.check()
    assert any((tmp_path / name).rglob("0*"))
    del twins
    gc.collect()
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("file", "Not a directory"),
        ("file/below", "Not a directory"),
        ("x" * 300, "File name too long"),
        ("/".join(["y" * 200] * 25), "File name too long"),
        ("/proc/none/rows", "No such file or directory"),
    ],
)
def test_a_path_that_cannot_be_is_named(path, reason, tmp_path):
    (tmp_path / "file").touch()
    words = f"could not make folder '.*{path}': {reason}"
    with pytest.raises(tf.errors.FailedPreconditionError, match=words):
        Twins(small(tmp_path / path))
    assert (tmp_path / "file").is_file()


def test_a_folder_that_cannot_be_written_is_named(shared_folder):
    with closed(shared_folder):
        words = f"could not open '{shared_folder}/keras_sparse.lock': Permission denied"
        with pytest.raises(tf.errors.FailedPreconditionError, match=words):
            Twins(small(shared_folder))
        words = f"could not make folder '{shared_folder}/rows': Permission denied"
        with pytest.raises(tf.errors.FailedPreconditionError, match=words):
            Twins(small(shared_folder / "rows"))
    assert list(shared_folder.iterdir()) == []


@pytest.mark.parametrize(
    ("mode", "reason"), [(0o000, "open '{}/keras_sparse.lock'"), (0o333, "list '{}'")]
)
def test_a_folder_that_cannot_be_read_is_named(mode, reason, shared_folder):
    (shared_folder / "keras_sparse-table-000000").mkdir()  # as of a process that was killed
    with closed(shared_folder, mode):
        words = f"could not {reason.format(shared_folder)}: Permission denied"
        with pytest.raises(tf.errors.FailedPreconditionError, match=f"`storage_path` .*{words}"):
            Twins(small(shared_folder))
    assert [each.name for each in shared_folder.iterdir()] == ["keras_sparse-table-000000"]
    twins = Twins(small(shared_folder))
    twins.train_some(5)
    twins.check()


def test_training_goes_on_once_a_folder_can_be_written_again(shared_folder):
    twins = Twins(small(shared_folder))
    twins.train_some(5)
    twins.wait_until_written()
    with closed(shared_folder):
        words = r"could not create '.*\.seg': Permission denied"
        fails(twins, tf.errors.FailedPreconditionError, words)
    twins.train_some(5)
    twins.check()


@pytest.mark.parametrize("storage_type", ["DRAM_SSDHASH", "DRAM_PMEM"])
def test_a_folder_that_is_removed_takes_no_row_with_it(storage_type, tmp_path):
    twins = Twins(small(tmp_path / "ssd", storage_type))
    twins.train_some(5)
    twins.wait_until_written()
    (file, *_) = (tmp_path / "ssd").rglob("00000*.*")
    shutil.rmtree(tmp_path / "ssd")
    words = f"could not create '{file.parent}/.*': No such file or directory"
    fails(twins, tf.errors.FailedPreconditionError, words)
    file.parent.mkdir(parents=True)
    twins.train_some(5)
    twins.check()
    del twins
    gc.collect()
    assert list(tmp_path.iterdir()) == []
