"""What the callback does with a folder in which not all is as it was saved."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

import forks
import keras_sparse
from checkpoint_cases import content
from checkpoint_cases import dataset_of
from checkpoint_cases import fit
from checkpoint_cases import make_model
from checkpoint_cases import names
from checkpoint_cases import NUM_KEYS
from checkpoint_cases import storage
from checkpoint_cases import tables
from checkpoint_cases import train_all_keys
from keras_sparse import native
from keras_sparse.callbacks import Checkpoint
from keras_sparse.saving.checkpoint.checkpoint_manifest import Manifest


def flip(bit):
    """Returns a change of a bit of a file: to another letter, or to no UTF-8."""

    def change(path):
        data = bytearray(path.read_bytes())
        data[200] ^= bit
        path.write_bytes(data)

    return change


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The checkpoints of a training of two epochs, and the content of its model."""
    folder = tmp_path_factory.mktemp("trained")
    fit(model := make_model(), [Checkpoint(folder)], epochs=2)
    return folder, content(model)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("model.weights.h5", lambda path: path.write_text("nothing"), "must have all its files"),
        ("manifest.json", pathlib.Path.unlink, "now step-000000020.damaged"),
        ("manifest.json", flip(0x01), "A checkpoint's manifest must match"),
        ("manifest.json", flip(0x80), "A checkpoint's manifest must match"),
    ],
    ids=["text", "none", "letter", "no letter"],
)
def test_a_damaged_checkpoint_is_put_aside(name, change, words, trained, tmp_path):
    shutil.copytree(trained[0], tmp_path, dirs_exist_ok=True)
    change(tmp_path / "step-000000020" / name)
    resumed = make_model()
    with pytest.warns(UserWarning, match=f"was renamed.*{words}"):
        fit(resumed, [Checkpoint(tmp_path)], epochs=2)
    assert names(tmp_path) == ["step-000000010", "step-000000020", "step-000000020.damaged"]
    assert (tmp_path / "step-000000020.damaged" / "model.weights.h5").exists()
    assert content(resumed) == trained[1]


DONE = pytest.mark.filterwarnings("ignore:.*returns without a step")


@DONE
def test_a_step_that_is_damaged_again_is_put_aside_again(trained, tmp_path):
    shutil.copytree(trained[0], tmp_path, dirs_exist_ok=True)
    for _ in range(2):
        (tmp_path / "step-000000020" / "model.weights.h5").write_text("nothing")
        with pytest.warns(UserWarning, match="was renamed"):
            fit(make_model(), [Checkpoint(tmp_path)], epochs=2)
    assert names(tmp_path)[2:] == ["step-000000020.damaged", "step-000000020.damaged1"]


@DONE
def test_what_a_killed_process_left_is_removed(tmp_path):
    fit(make_model(), [Checkpoint(tmp_path)], epochs=1)
    (tmp_path / ".step-000000020.0123456789abcdef.partial").mkdir()
    (tmp_path / "notes").mkdir()
    fit(make_model(), [Checkpoint(tmp_path)], epochs=1)
    assert names(tmp_path) == ["notes", "step-000000010"]


@DONE
def test_old_ones_lose_their_names_before_their_files(tmp_path, monkeypatch):
    """So that one that is removed in part, should the process be killed, is no checkpoint."""
    removed = []
    monkeypatch.setattr(shutil, "rmtree", lambda path, ignore_errors: removed.append(path))
    fit(make_model(), [Checkpoint(tmp_path, keep=1)], epochs=2)
    assert [path.name[:15] for path in removed] == [".step-000000010"]
    monkeypatch.undo()
    fit(make_model(), [Checkpoint(tmp_path, keep=1)], epochs=2)
    assert names(tmp_path) == ["step-000000020"]


@DONE
def test_a_step_is_saved_as_often_as_the_model_has_changed(tmp_path):
    class Lose(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 2:  # what the deltas go on from
                shutil.rmtree(tmp_path / "step-000000000")

    def make():
        model = make_model(compiled=False)
        model.compile(keras_sparse.optimizers.Adagrad(gradient_accumulation_steps=49), "mse")
        return model

    fit(model := make(), [Checkpoint(tmp_path), Lose()], epochs=4)
    saved = ["step-000000000-2-delta", "step-000000000-3", "step-000000000-delta"]
    assert names(tmp_path) == saved
    fit(resumed := make(), [Checkpoint(tmp_path)], epochs=4)
    assert names(tmp_path) == saved
    assert content(resumed) == content(model)
    assert len(tables(resumed)[0].table.accumulated) == len(tables(model)[0].table.accumulated) > 0
    fit(model, epochs=1)
    fit(resumed := make(), [Checkpoint(tmp_path, every_steps=1, keep=1)], epochs=5)
    assert content(resumed) == content(model)
    assert names(tmp_path) == ["step-000000001", "step-000000001-delta"]


def test_a_model_that_does_not_fit_puts_nothing_aside(tmp_path):
    fit(make_model(), [Checkpoint(tmp_path)], epochs=1)
    before = names(tmp_path)
    inputs = keras.Input((2,), dtype="int64")
    other = keras.Model(inputs, keras_sparse.layers.Embedding(None, 1, "sum")(inputs))
    other.compile(keras_sparse.optimizers.Adagrad(), loss="mse")
    with pytest.raises(ValueError, match="tables of the same shapes"):
        fit(other, [Checkpoint(tmp_path)])
    assert names(tmp_path) == before


@pytest.fixture
def of_nobody():
    """A folder of a user without rights, who this process is while `become` is entered."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        @contextlib.contextmanager
        def become():
            if os.geteuid() != 0:
                yield
                return
            for path in (folder, *folder.rglob("*")):
                os.chown(path, 65534, 65534)
            os.seteuid(65534)
            try:
                yield
            finally:
                os.seteuid(0)

        yield folder, become


@DONE
def test_what_may_not_be_read_now_is_not_damaged(of_nobody, tmp_path):
    folder, become = of_nobody
    model = make_model(storage("DRAM_SSDHASH", tmp_path / "tiers"))
    train_all_keys(model)
    fit(model, [Checkpoint(folder)], epochs=1)
    (last,) = names(folder)
    resumed = make_model()
    for pattern in ("manifest.json", "model.weights.h5", "rows-*.h5", "*.seg"):
        unreadable = next((folder / last).glob(pattern))
        with become():
            unreadable.chmod(0)
            with pytest.raises(OSError, match="Permission denied"):
                fit(resumed, [Checkpoint(folder)], epochs=1)
            unreadable.chmod(0o600)
        assert names(folder) == [last]
    fit(resumed, [Checkpoint(folder)], epochs=1)
    assert content(resumed) == content(model)


# Training that is killed at any moment, and begun again each time, ends as if it never was.
# Saves whole ones at 3 and at each 8, and deltas at each 3.
OPTIONS = {"every_steps": 8, "delta_every": 3, "keep": 2, "verbose": False}
# When this is first called from this step on, the process is killed, at once or seconds later.
KILLS = [
    (2, keras_sparse.optimizers.Adagrad, "apply", 0),
    (5, h5py.Group, "__setitem__", 0),
    (8, Manifest, "write", 0),
    (9, pathlib.Path, "rename", 0),
    (13, native, "mark_saved", 0),
    (16, shutil, "rmtree", 0),
    (20, keras_sparse.optimizers.Adagrad, "apply", 0.005),
    (24, keras.Model, "save_weights", 0.01),
    (27, native, "link_files", 0.005),
    (34, os, "fsync", 0),
]


class Told(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        """Is for a kill between steps."""


# The same with lookups that are made ready ahead, of batches that are passed over too.
KILLS_AHEAD = [
    (5, Told, "on_train_batch_end", 0),
    (13, os, "fsync", 0),
    (22, Told, "on_train_batch_end", 0.005),
    (35, Told, "on_train_batch_end", 0),
]
TRAININGS = {"over epochs": KILLS, "ahead": KILLS_AHEAD}


def fit_in_calls(model, training, callbacks=()):
    """Four epochs of ten steps: in data that goes on, or in the same ten batches, two a call."""
    is_ahead = training == "ahead"

    def batches():
        for step in range(10 if is_ahead else 40):
            rng = np.random.default_rng(step)
            yield rng.integers(0, NUM_KEYS, (100, 2)), rng.normal(size=(100, 1))

    dataset = dataset_of(batches)
    options = {"epochs": 4, "shuffle": False, "verbose": 0, "callbacks": [*callbacks, Told()]}
    if is_ahead:
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(10))
        ahead = keras_sparse.data.prefetch_lookups(dataset, model, num_threads=2, capacity=4)
        model.fit(ahead, **options)
    else:
        model.fit(dataset, steps_per_epoch=10, **options)


def make(training, storage=None):
    graph = {"run_eagerly": False, "steps_per_execution": 2}
    return make_model(storage, **(graph if training == "ahead" else {}))


def resume(folder, training, number=None):
    """Trains to the end, or until it is killed as the training's kill of a number says."""
    model = make(training, storage("DRAM_SSDHASH", folder / "tiers"))
    if number is not None:
        prepare_kill(model, *TRAININGS[training][number])
    fit_in_calls(model, training, [Checkpoint(folder / "run", **OPTIONS)])
    return model


def prepare_kill(model, step, owner, name, seconds):
    function = getattr(owner, name)
    kill = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL))

    def call(*args, **kwargs):
        if int(model.optimizer.iterations) >= step:
            setattr(owner, name, function)
            kill.start()
            if seconds == 0:
                kill.join()
        return function(*args, **kwargs)

    setattr(owner, name, call)


# Starting is slow: each process that is killed is a fork of one that has imported all.
SCRIPT = """
import json, os, pathlib, signal, sys
import checkpoint_folder_test as test
folder, training = pathlib.Path(sys.argv[1]), sys.argv[2]
for number in range(len(test.TRAININGS[training])):
    child = os.fork()
    if child == 0:
        signal.alarm(300)  # should it hang
        test.resume(folder, training, number)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(json.dumps([os.waitstatus_to_exitcode(status), test.names(folder / 'run')]), flush=True)
"""


@pytest.mark.slow("starts processes")
@pytest.mark.parametrize("training", TRAININGS)
def test_training_that_is_killed_again_and_again_ends_as_if_it_never_was(training, tmp_path):
    ended = subprocess.run(
        [*forks.python(), "-c", SCRIPT, str(tmp_path), training],
        env={**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parent)},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    killed = [json.loads(line) for line in ended.stdout.splitlines()]
    kills = TRAININGS[training]
    assert [code for code, _ in killed] == [-signal.SIGKILL] * len(kills), ended.stderr
    left = [any(name.endswith(".partial") for name in there) for _, there in killed]
    assert sum(left) >= (4 if kills is KILLS else 1)
    resumed = resume(tmp_path, training)
    fit_in_calls(expected := make(training), training)
    assert content(resumed) == content(expected)
    deltas = (33, 36, 39) if kills is KILLS else (34, 36)  # of two steps a call
    last = ["step-000000032", *(f"step-{step:09d}-delta" for step in deltas), "step-000000040"]
    assert names(tmp_path / "run") == last
