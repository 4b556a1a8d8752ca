import os
import pathlib
import subprocess

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
    subprocess.run(["make", "emulated-ops"], cwd=ROOT, check=True, capture_output=True)
    (path,) = ROOT.glob("build/py3-none-*/emulated_ops/_build_info.py")
    return path
