"""Saving to a disk that fails is an error, and loses neither a checkpoint nor a change."""

import errno
import fcntl
import functools
import os
import pathlib
import signal

import h5py
import keras
import numpy as np
import pytest

from checkpoint_cases import content
from checkpoint_cases import make_model
from checkpoint_cases import storage
from checkpoint_cases import train
from checkpoint_cases import train_all_keys
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import save_delta
from keras_sparse.saving import verify
from keras_sparse.saving.checkpoint.checkpoint_manifest import Manifest
from keras_sparse.saving.keras_files import hdf5_write_errors as hdf5_write_errors
from small_disks import files_of_at_most
from small_disks import run_with_mounts

STEPS = [
    (pathlib.Path, "mkdir"),
    (keras.Model, "save_weights"),
    (h5py.Group, "create_group"),
    (h5py.Group, "__setitem__"),
    (Manifest, "write"),
    (os, "fsync"),
    (pathlib.Path, "rename"),
]
SAVES = [save_checkpoint, save_delta]
each_save = pytest.mark.parametrize("save", SAVES)
each_storage = pytest.mark.parametrize("storage_type", [None, "DRAM_SSDHASH"])


class FailingDisk:
    """Fails the step of a number, of those that it is asked to count."""

    def __init__(self):
        self.steps = []
        self.fails = None

    def count(self, name, function):
        @functools.wraps(function)
        def step(*args, **kwargs):
            self.steps.append(name)
            if len(self.steps) - 1 == self.fails:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f"of {name}")
            return function(*args, **kwargs)

        return step


class Run:
    """A model that has been trained since it was saved, and folders for more checkpoints."""

    def __init__(self, folder, storage_type=None):
        self.folder = folder / "run"
        self.folder.mkdir()
        self.model = make_model(storage(storage_type, folder / "tiers"))
        train_all_keys(self.model)
        self.saved = [save_checkpoint(self.model, self.folder / "0")]
        self.train()

    def train(self):
        train(self.model, len(self.saved), num_samples=1000)
        self.expected = content(self.model, 5000)

    def save(self, save):
        self.saved.append(save(self.model, self.folder / f"{len(self.saved)}"))

    def check_nothing_changed(self):
        """A save that has failed leaves no trace."""
        assert sorted(self.folder.iterdir()) == self.saved
        assert content(self.model, 5000) == self.expected
        verify(self.saved[-1])

    def check_saved(self):
        """No change is missing in the last checkpoint, nor in the next ones."""
        for save in SAVES:
            load_checkpoint(loaded := make_model(), self.saved[-1])
            assert content(loaded, 5000) == self.expected
            self.train()
            self.save(save)


@each_save
@each_storage
def test_any_step_may_fail(storage_type, save, monkeypatch, tmp_path):
    run, disk = Run(tmp_path, storage_type), FailingDisk()
    for owner, name in STEPS:
        monkeypatch.setattr(owner, name, disk.count(name, getattr(owner, name)))
    failed = []
    first = (storage_type is None) == (save is save_delta)  # every other one, the rest with tiers
    while len(failed) < 200:
        disk.steps, disk.fails = [], first + 2 * len(failed)
        try:
            run.save(save)
            break
        except OSError as error:
            failed.append(str(error))
        run.check_nothing_changed()
    names = disk.steps[first::2]
    assert failed == [f"[Errno 28] No space left on device: 'of {name}'" for name in names]
    assert set(disk.steps) == {name for _, name in STEPS}
    disk.fails = None
    run.check_saved()


@each_storage
def test_what_cannot_be_linked_is_copied(storage_type, monkeypatch, tmp_path):
    run, disk = Run(tmp_path, storage_type), FailingDisk()
    run.save(save_checkpoint)
    run.train()
    monkeypatch.setattr(os, "link", disk.count("link", os.link))
    disk.fails = 1
    run.save(save_checkpoint)
    assert disk.steps == ["link"] * 4  # the two that the other table takes over are
    run.check_saved()


@each_save
@each_storage
def test_a_disk_may_be_full_at_any_byte(storage_type, save, tmp_path):
    run = Run(tmp_path, storage_type)
    size, files = 0, []
    while len(run.saved) == 1:
        try:
            with files_of_at_most(size):
                run.save(save)
        except OSError as error:
            files.append((error.errno, pathlib.Path(error.filename).name.partition("-")[0]))
            run.check_nothing_changed()
            size += 9000
    assert sorted(set(files)) == [(errno.EFBIG, "model.weights.h5"), (errno.EFBIG, "rows")]
    run.check_saved()


SMALL_DISK = """
import pathlib, sys
import checkpoint_faults_test, pytest, small_disks
for kind in (None, "DRAM_SSDHASH"):
    disk = pathlib.Path(sys.argv[1], f"größe {kind}")
    small_disks.mount(disk, "100m")
    run = checkpoint_faults_test.Run(disk, kind)
    used = sum(path.stat().st_blocks for path in disk.rglob("*")) * 512
    weights = disk / "model.weights.h5"
    for left in (4_000, 12_000, 24_000, 36_000):
        small_disks.resize(disk, used + left)
        for save in checkpoint_faults_test.SAVES:
            with pytest.raises(OSError, match=f"No space left on device: '{run.folder}/.*'"):
                run.save(save)
            run.check_nothing_changed()
        with pytest.raises(OSError, match=f"No space left on device: '{weights}'"):
            run.model.save_weights(weights)
        with pytest.raises(OSError, match="No space left on device"):
            run.model.save(disk / "model.keras")
        assert not [each.name for each in disk.iterdir() if "model." in each.name]
    small_disks.resize(disk, "100m")
    run.save(save)
    run.check_saved()
"""


def test_ctrl_c_in_the_middle_of_a_write_does_not_reach_hdf5(tmp_path, monkeypatch):
    def interrupt(disk, size=None):
        disk._try(signal.raise_signal, signal.SIGINT)

    files = []

    def write():
        with hdf5_write_errors.hdf5_write_errors():
            files.append(hdf5_write_errors.new_hdf5_file(tmp_path / "file.h5"))
            monkeypatch.setattr(hdf5_write_errors._Disk, "truncate", interrupt)
            files[0]["data"] = [1, 2, 3]

    # A shell lets what it runs in the background ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            write()
    finally:
        signal.signal(signal.SIGINT, before)
    assert not files[0]  # it is closed


@pytest.mark.parametrize("name", ["size", "größe", "大小"])
def test_a_full_disk_is_an_error_that_names_the_file(name, tmp_path):
    path = tmp_path / f"{name}.h5"
    too_large = pytest.raises(OSError, match="File too large")
    with too_large as raised, files_of_at_most(10_000), hdf5_write_errors.hdf5_write_errors():
        hdf5_write_errors.new_hdf5_file(path)["data"] = [1.0] * 100_000
    assert (raised.value.errno, raised.value.filename) == (errno.EFBIG, str(path))


def test_a_file_that_is_read_is_not_overwritten(tmp_path):
    path = tmp_path / "file.h5"
    path.write_bytes(before := b"text")
    with open(path) as read:
        fcntl.flock(read, fcntl.LOCK_SH)  # as HDF5 does
        with (
            pytest.raises(BlockingIOError, match=f"open elsewhere .*{path.name}"),
            hdf5_write_errors.hdf5_write_errors(),
        ):
            hdf5_write_errors.new_hdf5_file(path)
    assert path.read_bytes() == before


def test_who_reads_a_file_that_is_saved_again_has_it_as_it_was(tmp_path):
    model = make_model()
    model.save_weights(path := tmp_path / "model.weights.h5")
    with h5py.File(path) as file:
        train(model, 1)
        model.save_weights(path)
        verify(file)
        assert not np.array_equal(file["layers/dense/vars/0"], model.layers[-1].kernel)
    model.load_weights(path)


@pytest.mark.slow("starts processes")
def test_a_small_disk_that_is_made_larger_loses_no_change(tmp_path):
    run_with_mounts(SMALL_DISK, tmp_path)
