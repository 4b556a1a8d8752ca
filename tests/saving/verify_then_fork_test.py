"""A process that has only checked files may be forked: none of TensorFlow's threads has started."""

import os
import pathlib
import subprocess
import sys

import pytest

from checkpoint_cases import make_model
from checkpoint_cases import storage
from checkpoint_cases import train_all_keys
from keras_sparse.saving import save_checkpoint

TESTS = pathlib.Path(__file__).parents[1]
VERIFY_AND_FORK = """
import os, signal, sys, time
import checkpoint_cases
from keras_sparse.saving import verify
folder, saved = sys.argv[1:]
assert verify(saved) > 0
child = os.fork()
if child == 0:
    storage = checkpoint_cases.storage("DRAM_SSDHASH", folder)
    checkpoint_cases.fit(checkpoint_cases.make_model(storage, run_eagerly=False))
    os._exit(0)
deadline = time.monotonic() + 60
while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
    if time.monotonic() > deadline:
        os.kill(child, signal.SIGKILL)
        sys.exit("the child hangs")
    time.sleep(0.05)
sys.exit(os.waitstatus_to_exitcode(ended[1]))
"""


@pytest.mark.parametrize("name", ["checkpoint", "model.weights.h5"])
def test_a_child_of_a_process_that_has_verified_trains(name, tmp_path):
    model = make_model(storage("DRAM_SSDHASH", tmp_path / "saved"))
    train_all_keys(model)
    if name == "checkpoint":
        save_checkpoint(model, tmp_path / name, verbose=False)
    else:
        model.save_weights(tmp_path / name)
    paths = [str(TESTS), *filter(None, sys.path)]
    ended = subprocess.run(
        [sys.executable, "-c", VERIFY_AND_FORK, str(tmp_path / "child"), str(tmp_path / name)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert ended.returncode == 0, ended.stderr
