"""The batch script of the page on preemption runs, with a stand-in for Slurm."""

import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from keras_sparse.saving import CheckpointInfo
from keras_sparse.saving import latest_checkpoint

PAGE = pathlib.Path(__file__).parents[2] / "docs/how-to/preemption.md"
NUM_STEPS = 3 * 125


def file_on_page(name):
    return re.search(rf'```\w+ title="{name}"\n(.*?)```', PAGE.read_text(), re.DOTALL)[1]


# Lets the fifth step of a training wait until its signal is there.
HOLD = """
class Hold(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 4 and os.environ["HOLDS"] == "1":
            print("holds", flush=True)
            while checkpoint._stop_signal._handler.received is None:
                time.sleep(0.01)

"""


def start(folder, holds):
    """Runs the batch script as Slurm does."""
    paths = (folder, pathlib.Path(sys.executable).parent, os.environ["PATH"])
    added = {"SLURM_JOB_ID": "42", "HOLDS": str(int(holds)), "PATH": ":".join(map(str, paths))}
    return subprocess.Popen(
        ["bash", "train.sbatch"],
        cwd=folder,
        env={**os.environ, **added},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow("starts processes")
@pytest.mark.parametrize("num_signals", [1, 2])
def test_the_batch_script_requeues_a_training_that_was_told_to_end(num_signals, tmp_path):
    (tmp_path / "scontrol").write_text('#!/bin/sh\necho scontrol "$@"\n')
    (tmp_path / "scontrol").chmod(0o755)
    (tmp_path / "train.sbatch").write_text(file_on_page("train.sbatch"))
    script = f"import os, time\n{file_on_page('train.py')}"
    script = re.sub(r"(callbacks=\[checkpoint)\]", r"\1, Hold()]", script)
    (tmp_path / "train.py").write_text(script.replace("\nmodel.fit(", f"{HOLD}\nmodel.fit("))

    with start(tmp_path, holds=True) as batch:
        assert "holds\n" in iter(batch.stdout.readline, "")
        for _ in range(num_signals):
            batch.send_signal(signal.SIGTERM)  # to the batch script alone
        printed, _ = batch.communicate(timeout=600)
    assert "Stopping after SIGTERM: saved " in printed
    assert printed.endswith("scontrol requeue 42\n")
    assert batch.returncode == 75
    assert CheckpointInfo.read(latest_checkpoint(tmp_path / "run")).step == 6

    with start(tmp_path, holds=False) as batch:
        printed, _ = batch.communicate(timeout=600)
    assert "scontrol" not in printed
    assert batch.returncode == 0
    assert CheckpointInfo.read(latest_checkpoint(tmp_path / "run")).step == NUM_STEPS
