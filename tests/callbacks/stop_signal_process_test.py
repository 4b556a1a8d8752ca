"""Processes that receive signals while they train and save."""

import hashlib
import os
import pathlib
import signal
import subprocess

import numpy as np
import pytest

import forks
from checkpoint_cases import content
from checkpoint_cases import fit
from checkpoint_cases import make_model
from checkpoint_cases import names

pytestmark = pytest.mark.slow("starts processes")
SUPPORT = pathlib.Path(__file__).parents[1] / "support"
TRAIN = """
import atexit, hashlib, os, signal, sys, threading
import keras
from checkpoint_cases import content, fit, make_model
from keras_sparse.callbacks import Checkpoint
from keras_sparse.saving.checkpoint import checkpoint_writer

folder, waits_in_save = sys.argv[1:]
class Say(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        print("step", int(self.model.optimizer.iterations), flush=True)

def write_manifest(*args):
    print("saving", flush=True)
    sys.stdin.readline()
    return of_writer(*args)

of_writer = checkpoint_writer._Written.write_manifest
model = make_model()
print("begins", flush=True)
sys.stdin.readline()
callback = Checkpoint(folder, every_steps=5, on_signal="SIGTERM", verbose=False)
if int(waits_in_save):
    def signal_late():
        threading.main_thread().join()
        os.kill(os.getpid(), signal.SIGTERM)
    threading.Thread(target=signal_late).start()  # Python waits for it
    atexit.register(os.kill, os.getpid(), signal.SIGTERM)  # a last one while the process ends
    class Wait(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if int(self.model.optimizer.iterations) == 7:
                checkpoint_writer._Written.write_manifest = write_manifest
    fit(model, [Wait(), Say(), callback])
else:
    fit(model, [callback, Say()])
print(hashlib.md5(repr(content(model)).encode()).hexdigest(), flush=True)
sys.stdin.readline()
"""
NUM_STEPS = 30


@pytest.fixture(name="start")
def _start(tmp_path, monkeypatch):
    """Starts a training that prints each of its steps; none outlives the test."""
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT), prepend=os.pathsep)
    started = []

    def start(waits_in_save=False, begins=True):
        process = subprocess.Popen(
            [*forks.python(), "-c", TRAIN, str(tmp_path / "run"), str(int(waits_in_save))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout.readline() == "begins\n", process.communicate()[1]
        if begins:
            go_on(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def go_on(process):
    process.stdin.write("\n")
    process.stdin.flush()


def wait_for(process, line):
    for printed in process.stdout:
        if printed == f"{line}\n":
            return
    pytest.fail(f"{line} was not printed: {process.communicate()[1]}")


def status_of(process):
    """Returns the exit status; below 0 the number of the signal that killed it."""
    _, errors = process.communicate(timeout=600)
    assert "Traceback" not in errors, errors
    return process.returncode


def check_rest(start):
    """Trains to the end, and checks that the model is that of an undisturbed training."""
    process = start()
    wait_for(process, f"step {NUM_STEPS}")
    digest = process.stdout.readline().strip()
    go_on(process)
    assert status_of(process) == 0
    fit(expected := make_model())
    assert digest == hashlib.md5(repr(content(expected)).encode()).hexdigest()


def test_a_signal_at_any_moment_ends_with_the_status_to_run_again(start, tmp_path):
    random, first = np.random.default_rng(0), 1
    for _ in range(3):
        process = start()
        wait_for(process, f"step {first + random.integers(4)}")
        process.terminate()
        assert status_of(process) == 75
        assert not [name for name in names(tmp_path / "run") if not name.startswith("step-")]
        first = int(names(tmp_path / "run")[-1].removeprefix("step-")) + 1
    check_rest(start)


def start_a_save(start):
    """Sends a signal to a training; returns the process, which waits in its save."""
    process = start(waits_in_save=True)
    wait_for(process, "step 7")
    process.terminate()
    wait_for(process, "saving")
    return process


def test_a_second_signal_does_not_cut_off_the_save(start, tmp_path):
    process = start_a_save(start)
    process.terminate()
    go_on(process)
    assert status_of(process) == 75
    assert names(tmp_path / "run")[0] == "step-000000005"
    assert len(names(tmp_path / "run")) == 2
    check_rest(start)


def test_a_kill_in_the_save_leaves_the_checkpoint_before(start, tmp_path):
    process = start_a_save(start)
    process.kill()
    assert status_of(process) == -signal.SIGKILL
    saved = [name for name in names(tmp_path / "run") if name.startswith("step-")]
    assert saved == ["step-000000005"]
    check_rest(start)


def test_a_signal_outside_of_fit_kills(start):
    process = start(begins=False)
    process.terminate()
    assert status_of(process) == -signal.SIGTERM
    process = start()
    wait_for(process, f"step {NUM_STEPS}")
    assert len(process.stdout.readline()) == 33
    process.terminate()
    assert status_of(process) == -signal.SIGTERM
