import os
import re
import subprocess

import pytest

import forks


@pytest.mark.slow("starts processes")
def test_the_whole_script_runs_on_the_small_data_set(tmp_path, examples_folder):
    command = [*forks.python(), examples_folder / "movielens.py", "--size", "100k"]
    command += ["--epochs", "1", "--output", tmp_path]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    here, there = re.findall(r"^AUC 0\.8\d+, log-loss 0\.\d+$", done.stdout, re.M)
    assert here == there
    assert (tmp_path / "movielens-100k.keras").exists()
    assert (tmp_path / "movielens-100k.png").read_bytes().startswith(b"\x89PNG")
    assert str(tmp_path / "movielens-100k.png") in done.stdout
