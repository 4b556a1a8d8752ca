"""A process that has only checked files may be forked: none of TensorFlow's threads has started."""

import subprocess

import pytest

import forks
from checkpoint_cases import make_model
from checkpoint_cases import storage
from checkpoint_cases import train_all_keys
from keras_sparse.saving import save_checkpoint

VERIFY_AND_FORK = """
import os, signal, sys, time
import checkpoint_cases
from keras_sparse.saving import verify
folder, *saved = sys.argv[1:]
for each in saved:
    assert verify(each) > 0
    child = os.fork()
    if child == 0:
        storage = checkpoint_cases.storage("DRAM_SSDHASH", folder)
        checkpoint_cases.fit(checkpoint_cases.make_model(storage, run_eagerly=False))
        os._exit(0)
    deadline = time.monotonic() + 300
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            sys.exit(f"the child hangs that came after {each}")
        time.sleep(0.05)
    assert ended[1] == 0, (each, ended)
"""


@pytest.mark.slow("starts processes")
def test_a_child_of_a_process_that_has_verified_trains(tmp_path):
    model = make_model(storage("DRAM_SSDHASH", tmp_path / "tiers"))
    train_all_keys(model)
    saved = [tmp_path / "checkpoint", tmp_path / "model.weights.h5"]
    save_checkpoint(model, saved[0], verbose=False)
    model.save_weights(saved[1])
    ended = subprocess.run(
        [*forks.python(), "-c", VERIFY_AND_FORK, str(tmp_path / "child"), *map(str, saved)],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert ended.returncode == 0, ended.stderr
