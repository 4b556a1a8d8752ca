import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]

# Libraries that TensorFlow loads, by our sources of them; of the others it calls nothing.
SOURCES = {
    "libcuda.so.1": "fake_driver.c",
    "libcudart.so.12": "fake_runtime.c",
    "libnvidia-ml.so.1": "fake_management.c",
}
EMPTY = (
    "libcublas.so.12",
    "libcublasLt.so.12",
    "libcudnn.so.9",
    "libcufft.so.11",
    "libcusolver.so.11",
    "libcusparse.so.12",
)


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    """A folder of libraries, with which TensorFlow sees a GPU."""
    folder = tmp_path_factory.mktemp("driver")
    compiler = os.environ.get("CC", "cc")
    for library in (*SOURCES, *EMPTY):
        source = HERE / SOURCES[library] if library in SOURCES else "/dev/null"
        command = [compiler, "-w", "-shared", "-fPIC", "-o", folder / library, "-x", "c", source]
        subprocess.run(command, check=True)
    return folder


@pytest.fixture(scope="session")
def build_info():
    """The file beside the ops whose GPU is emulated."""
    if "MAKELEVEL" not in os.environ:  # or `make test-slow` has made them
        subprocess.run(["make", "emulated-ops"], cwd=ROOT, check=True)
    (path,) = ROOT.glob("build/py3-none-*/emulated_ops/_build_info.py")
    return path


@pytest.fixture
def run_emulated(build_info, driver):
    """Runs Python with a GPU that the CPU emulates, and fails if it fails."""

    def run(*arguments, **variables):
        # It is none of several workers.
        environment = {name: each for name, each in os.environ.items() if "PYTEST" not in name}
        environment |= {"EMULATED_BUILD_INFO": str(build_info), "LD_LIBRARY_PATH": str(driver)}
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=environment | variables,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]

    return run
