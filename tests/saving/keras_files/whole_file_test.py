"""A file that is saved over an older one takes its place when it is whole, at any path."""

import concurrent.futures
import errno
import fcntl
import gc
import itertools
import os
import pathlib
import re
import shutil
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse.layers import Embedding
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import save_delta
from keras_sparse.saving import verify
from keras_sparse.saving.checkpoint.checkpoint_folder import CheckpointFolder
from keras_sparse.saving.format.partial_folder import remove_partial
from keras_sparse.saving.keras_files.whole_file import whole_file
from pairwise import each_pair

IDS = np.arange(12).reshape(6, 2)


class Stumbling(keras.layers.Dense):
    """A layer that does something else while it is saved."""

    meanwhile = None

    def save_own_variables(self, store):
        super().save_own_variables(store)
        if self.meanwhile is not None:
            self.meanwhile()


def make_model(stumbles_first=True):
    inputs = keras.Input((2,), dtype="int64")
    floats = keras.ops.cast(inputs, "float32")
    sides = [Embedding(None, 2, "sum")(inputs), keras.layers.Dense(2)(floats)]
    stumbling = Stumbling(1)
    # Keras saves layers in the order of their depth.
    added = keras.layers.Add()(sides)
    outputs = keras.layers.Concatenate()([stumbling(floats), added])
    if not stumbles_first:
        outputs = stumbling(added)
    model = keras.Model(inputs, outputs)
    model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse", run_eagerly=True)
    train(model)
    return model, stumbling


def train(model):
    model.train_on_batch(IDS, np.ones((6, model.output_shape[1])))


def in_shards(model, path):
    model.save_weights(path, max_shard_size=1e-6)


SAVES = {
    "m.weights.h5": (
        lambda model, path: model.save_weights(path),
        lambda model, path: keras.saving.save_weights(model, path),
    ),
    "m.weights.json": (in_shards,),
    "m.keras": (
        lambda model, path: model.save(path),
        lambda model, path: keras.saving.save_model(model, path),
        lambda model, path: keras.models.save_model(model, path),
        lambda model, path: tf.keras.models.save_model(model, path),
    ),
}
NAMED_SAVES = [(name, save) for name, saves in SAVES.items() for save in saves]
LOADS = [keras.Model.load_weights, keras.saving.load_weights]


@pytest.fixture
def interrupt():
    """What Ctrl-C does. A shell lets what it runs in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def fail():
    raise OSError(28, "No space left on device")


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@each_pair(named_save=NAMED_SAVES, is_there=[True, False], stumbles_first=[True, False])
def test_ctrl_c_is_one_and_leaves_the_old_file(
    named_save, is_there, stumbles_first, interrupt, tmp_path, capfd
):
    name, save = named_save
    model, stumbling = make_model(stumbles_first)
    if is_there:
        save(model, tmp_path / name)
    before = files(tmp_path)
    capfd.readouterr()
    stumbling.meanwhile = interrupt
    with pytest.raises(KeyboardInterrupt) as raised:
        save(model, tmp_path / name)
    assert raised.value.__context__ is None
    gc.collect()
    assert capfd.readouterr().err == ""
    assert files(tmp_path) == before
    stumbling.meanwhile = None
    save(model, tmp_path / name)
    assert verify(tmp_path / name) == 1


def test_ctrl_c_leaves_no_checkpoint(interrupt, tmp_path, capfd):
    model, stumbling = make_model()
    stumbling.meanwhile = interrupt
    capfd.readouterr()
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(model, tmp_path / "saved")
    gc.collect()
    assert (capfd.readouterr().err, list(tmp_path.iterdir())) == ("", [])


@pytest.mark.parametrize(("name", "save"), NAMED_SAVES)
def test_an_error_leaves_the_old_file_and_names_it(name, save, tmp_path):
    model, stumbling = make_model()
    save(model, tmp_path / name)
    before = files(tmp_path)
    stumbling.meanwhile = fail
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path / name}'$"):
        save(model, tmp_path / name)
    assert files(tmp_path) == before


def test_what_a_killed_process_left_goes_and_what_another_writes_stays(tmp_path):
    model, stumbling = make_model()
    left = tmp_path / ".m.weights.h5.0123456789abcdef.partial"
    left.mkdir()
    other = tmp_path / ".n.weights.h5.0123456789abcdef.partial"
    other.mkdir()
    stumbling.meanwhile = lambda: make_model()[0].save_weights(tmp_path / "m.weights.h5")
    model.save_weights(tmp_path / "m.weights.h5")
    assert sorted(path.name for path in tmp_path.iterdir()) == [other.name, "m.weights.h5"]
    model.load_weights(tmp_path / "m.weights.h5")


def test_a_checkpoint_is_not_taken_for_left_while_it_is_saved(tmp_path):
    model, stumbling = make_model()
    path = tmp_path / CheckpointFolder(tmp_path).new_name(1, is_delta=False)
    stumbling.meanwhile = lambda: CheckpointFolder(tmp_path)  # which removes what was left
    save_checkpoint(model, path)
    assert verify(path) == 1
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("has_locks", [True, False])
def test_saves_of_one_name_at_a_time_leave_one_of_the_whole_files(has_locks, tmp_path, monkeypatch):
    path = tmp_path / "m.keras"

    def no_locks(*args):
        raise OSError(errno.ENOLCK, "No locks available")

    if not has_locks:  # as some file systems
        monkeypatch.setattr(fcntl, "flock", no_locks)

    def save(text):
        for _ in range(20):
            with whole_file(str(path)) as new_path:
                pathlib.Path(new_path).write_text(text)

    texts = ["a" * 9000, "b" * 9000, "c" * 9000, "d" * 9000]
    with concurrent.futures.ThreadPoolExecutor(len(texts)) as pool:
        list(pool.map(save, texts))
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() in texts


def test_a_folder_that_was_made_anew_is_not_taken_for_the_one_before(tmp_path, monkeypatch):
    left = tmp_path / ".m.keras.0123456789abcdef.partial"
    left.mkdir()
    lock = fcntl.flock

    def lock_late(*args):  # another save has removed it meanwhile, and its owner made it again
        left.rmdir()
        left.mkdir()
        (left / "m.keras").touch()
        lock(*args)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    remove_partial(tmp_path, re.compile("m.keras"))
    assert (left / "m.keras").exists()
    monkeypatch.setattr(fcntl, "flock", lock)
    remove_partial(tmp_path, re.compile("m.keras"))
    assert not left.exists()


@pytest.mark.parametrize("name", ["m.keras", "m.weights.h5"])
@pytest.mark.parametrize("target", ["same name", "blob0"])
def test_a_link_and_the_rights_of_a_file_stay(target, name, tmp_path):
    model, _ = make_model()
    target = tmp_path / "there" / (name if target == "same name" else target)
    target.parent.mkdir()
    os.symlink(target, tmp_path / name)
    for _ in range(2):
        SAVES[name][0](model, tmp_path / name)
        target.chmod(0o640)
    assert (tmp_path / name).is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    assert list(target.parent.iterdir()) == [target]
    expected = model(IDS)
    train(model)
    model.load_weights(tmp_path / name)
    np.testing.assert_array_equal(model(IDS), expected)


def test_weights_are_read_from_a_keras_file_where_there_is_room(tmp_path, monkeypatch):
    """Without a trace of what a killed process has left of them."""
    model, _ = make_model()
    model.save(tmp_path / "m.keras")
    (tmp_path / ".m.keras.0123456789abcdef.partial").mkdir()
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=99))
    with pytest.raises(OSError, match=r"must have room .*with 99 bytes free.*m\.keras'$"):
        model.load_weights(tmp_path / "m.keras")
    assert os.listdir(tmp_path) == ["m.keras"]
    monkeypatch.undo()
    assert verify(tmp_path / "m.keras") == 1
    assert os.listdir(tmp_path) == ["m.keras"]


@pytest.mark.parametrize("answer", ["y", "n"])
def test_overwrite_is_asked_for_as_ever(answer, tmp_path, monkeypatch):
    model, _ = make_model()
    model.save_weights(tmp_path / "m.weights.h5")
    before = files(tmp_path)
    train(model)
    monkeypatch.setattr("builtins.input", lambda _: answer)
    model.save_weights(tmp_path / "m.weights.h5", overwrite=False)
    assert (files(tmp_path) == before) == (answer == "n")


# Each save and each load of each kind of file.
@pytest.mark.parametrize(
    ("name", "save", "load"),
    [
        *((*each, load) for each, load in zip(NAMED_SAVES, itertools.cycle(LOADS))),
        ("m.weights.json", in_shards, LOADS[1]),
    ],
)
def test_a_url_is_saved_to_and_loaded_from(name, save, load, tmp_path):
    folder = f"ram://{tmp_path.name}"
    tf.io.gfile.makedirs(folder)
    model, stumbling = make_model()
    save(model, f"{folder}/{name}")
    expected = model(IDS)
    train(model)
    stumbling.meanwhile = fail
    with pytest.raises(OSError, match="No space left"):
        save(model, f"{folder}/{name}")
    load(model, f"{folder}/{name}")
    np.testing.assert_array_equal(model(IDS), expected)
    assert verify(f"{folder}/{name}") == 1


CHECKPOINTS = {
    "save_checkpoint": save_checkpoint,
    "save_delta": save_delta,
    "load_checkpoint": load_checkpoint,
    "CheckpointInfo": lambda model, path: keras_sparse.saving.CheckpointInfo.read(path),
    "Checkpoint": lambda model, path: keras_sparse.callbacks.Checkpoint(path),
}


@pytest.mark.parametrize("use", CHECKPOINTS.values(), ids=CHECKPOINTS.keys())
def test_a_checkpoint_is_of_this_machine(use, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, _ = make_model()
    save_checkpoint(model, tmp_path / "base")
    with pytest.raises(ValueError, match=r"of this machine.*Received: \w+='gs://bucket/run'"):
        use(model, "gs://bucket/run")
    assert [path.name for path in tmp_path.iterdir()] == ["base"]


def test_the_home_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    model, _ = make_model()
    for name, (save, *_) in SAVES.items():
        save(model, f"~/{name}")
        model.load_weights(f"~/{name}")
        assert verify(f"~/{name}") == 1
    save_checkpoint(model, "~/saved")
    save_delta(model, "~/delta")
    load_checkpoint(model, "~/delta")
    keras_sparse.saving.CheckpointInfo.read("~/delta")
    callbacks = [
        keras_sparse.callbacks.Checkpoint("~/run"),
        keras_sparse.callbacks.TierStats("~/logs"),
    ]
    model.fit(IDS, np.ones((6, 3)), verbose=0, callbacks=callbacks)
    storage = keras_sparse.StorageOption("DRAM_SSDHASH", "~/rows")
    assert storage.storage_path == str(tmp_path / "rows")
    names = {path.name for path in tmp_path.iterdir()}
    assert {*SAVES, "saved", "delta", "run", "logs"} <= names
    assert "~" not in names
