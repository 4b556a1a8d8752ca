"""A process that receives signals while it saves, and while it ends."""

import hashlib
import os
import pathlib
import signal
import subprocess

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

class Wait(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations) == 7:
            checkpoint_writer._Written.write_manifest = write_manifest
            print("step 7", flush=True)
            sys.stdin.readline()

def write_manifest(*args):
    print("saving", flush=True)
    sys.stdin.readline()
    return of_writer(*args)

def signal_late():
    threading.main_thread().join()
    os.kill(os.getpid(), signal.SIGTERM)

of_writer = checkpoint_writer._Written.write_manifest
callbacks = [Checkpoint(sys.argv[1], every_steps=5, on_signal="SIGTERM", verbose=False)]
if sys.argv[2] == "waits":
    threading.Thread(target=signal_late).start()  # Python waits for it
    atexit.register(os.kill, os.getpid(), signal.SIGTERM)  # a last one while the process ends
    callbacks.insert(0, Wait())
model = make_model()
fit(model, callbacks)
print(hashlib.md5(repr(content(model)).encode()).hexdigest(), flush=True)
"""


def start(folder, word):
    return subprocess.Popen(
        [*forks.python(), "-c", TRAIN, str(folder), word],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("second", "status", "num_saved"), [("terminate", 75, 2), ("kill", -signal.SIGKILL, 1)]
)
def test_a_second_signal_does_not_cut_off_the_save(
    second, status, num_saved, tmp_path, monkeypatch
):
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT), prepend=os.pathsep)
    with start(tmp_path / "run", "waits") as process:
        for line in ("step 7\n", "saving\n"):
            assert process.stdout.readline() == line
            process.terminate()
            process.stdin.write("\n" if line == "step 7\n" else "")
            process.stdin.flush()
        getattr(process, second)()
        if second == "kill":
            process.wait()
        _, errors = process.communicate("\n", timeout=600)
    assert "Traceback" not in errors, errors
    assert process.returncode == status
    saved = [name for name in names(tmp_path / "run") if name.startswith("step-")]
    assert saved[0] == "step-000000005"
    assert len(saved) == num_saved
    # The rest of the training ends in the model of an undisturbed one.
    with start(tmp_path / "run", "ends") as process:
        printed, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    fit(expected := make_model())
    assert printed.strip() == hashlib.md5(repr(content(expected)).encode()).hexdigest()
