"""Training that is killed at any moment, and begun again each time, ends as if it never was."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
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
from checkpoint_cases import make_model
from checkpoint_cases import names
from checkpoint_cases import NUM_KEYS
from checkpoint_cases import storage
from keras_sparse import native
from keras_sparse.callbacks import Checkpoint
from keras_sparse.saving.checkpoint.checkpoint_manifest import Manifest

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


def fit(model, training, callbacks=()):
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
    fit(model, training, [Checkpoint(folder / "run", **OPTIONS)])
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
import checkpoint_kill_test as test
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
    fit(expected := make(training), training)
    assert content(resumed) == content(expected)
    deltas = (33, 36, 39) if kills is KILLS else (34, 36)  # of two steps a call
    last = ["step-000000032", *(f"step-{step:09d}-delta" for step in deltas), "step-000000040"]
    assert names(tmp_path / "run") == last
