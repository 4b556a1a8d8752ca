"""What is said of a GPU that has no room, or fails; the CPU emulates it."""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def test_a_failing_gpu_is_said_and_the_process_ends_normally(build_info, driver, tmp_path):
    environment = {name: each for name, each in os.environ.items() if "PYTEST" not in name}
    environment |= {
        "EMULATED_BUILD_INFO": str(build_info),
        "LD_LIBRARY_PATH": str(driver),
        "PYTHONPATH": str(HERE),
    }
    options = (
        "-q",
        "-p",
        "tables_on_gpu",
        "-p",
        "no:cacheprovider",
        "--basetemp",
        tmp_path / "run",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, HERE / "failing_gpu.py"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
