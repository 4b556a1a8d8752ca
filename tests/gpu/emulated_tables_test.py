"""Tests of tables in memory, run with tables in the memory of a GPU, which the CPU emulates."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def test_tables_in_gpu_memory_are_those_in_memory(build_info, driver, tmp_path):
    environment = dict(
        os.environ,
        EMULATED_BUILD_INFO=str(build_info),
        LD_LIBRARY_PATH=str(driver),
    )
    # It is none of several workers.
    environment = {name: each for name, each in environment.items() if "PYTEST" not in name}
    command = [sys.executable, "tests/gpu/run_on_gpu.py", "-q", "--basetemp", tmp_path / "run"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
