"""Training that is killed at any moment, and begun again each time, ends as if it never was."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading

import h5py
import keras
import numpy as np
import tensorflow as tf

import keras_sparse
from checkpoint_cases import content
from checkpoint_cases import make_model
from checkpoint_cases import names
from checkpoint_cases import NUM_KEYS
from checkpoint_cases import storage
from keras_sparse import ops
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
    (13, ops, "mark_saved", 0),
    (16, shutil, "rmtree", 0),
    (20, keras_sparse.optimizers.Adagrad, "apply", 0.005),
    (24, keras.Model, "save_weights", 0.01),
    (27, ops, "link_files", 0.005),
    (34, os, "fsync", 0),
]


def fit(model, callbacks=()):
    """Forty epochs of a step, so that none is cut off and comes again; each has its own batch."""

    def batches():
        for step in range(int(model.optimizer.iterations), 40):
            rng = np.random.default_rng(step)
            yield rng.integers(0, NUM_KEYS, (100, 2)), rng.normal(size=(100, 1))

    specs = tf.TensorSpec((None, 2), tf.int64), tf.TensorSpec((None, 1), tf.float64)
    dataset = tf.data.Dataset.from_generator(batches, output_signature=specs)
    options = {"steps_per_epoch": 1, "shuffle": False, "verbose": 0}
    model.fit(dataset, epochs=40, callbacks=callbacks, **options)


def resume(folder, number=None):
    """Trains to the end, or until it is killed as `KILLS[number]` says."""
    model = make_model(storage("DRAM_SSDHASH", folder / "tiers"))
    if number is not None:
        prepare_kill(model, *KILLS[number])
    fit(model, [Checkpoint(folder / "run", **OPTIONS)])
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
folder = pathlib.Path(sys.argv[1])
for number in range(len(test.KILLS)):
    child = os.fork()
    if child == 0:
        signal.alarm(300)  # should it hang
        test.resume(folder, number)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(json.dumps([os.waitstatus_to_exitcode(status), test.names(folder / 'run')]), flush=True)
"""


def test_training_that_is_killed_again_and_again_ends_as_if_it_never_was(tmp_path):
    paths = [str(pathlib.Path(__file__).parent), *filter(None, sys.path)]
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    killed = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [code for code, _ in killed] == [-signal.SIGKILL] * len(KILLS), ended.stderr
    left = [any(name.endswith(".partial") for name in there) for _, there in killed]
    assert sum(left) >= 4
    resumed = resume(tmp_path)
    fit(expected := make_model())
    assert content(resumed) == content(expected)
    assert names(tmp_path / "run") == [
        "step-000000032",
        "step-000000033-delta",
        "step-000000036-delta",
        "step-000000039-delta",
        "step-000000040",
    ]
