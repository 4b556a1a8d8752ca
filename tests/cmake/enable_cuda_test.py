"""Which compiler the .cu files get, if any. `make build-cuda` compiles them."""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tomllib

import pytest

ROOT = pathlib.Path(__file__).parents[2]
CMAKE = pathlib.Path(sysconfig.get_path("scripts"), "cmake")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
REQUIREMENT = PYPROJECT["project"]["optional-dependencies"]["nvcc"]
# Where CMake looks for programs.
FOLDERS = ["/usr/local/cuda/bin", "/usr/local/bin", "/usr/bin", *os.environ["PATH"].split(":")]
# What it must not find there: a compiler of this machine.
IGNORED = {folder for folder in FOLDERS if pathlib.Path(folder, "nvcc").exists()}


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A Python without packages."""
    folder = tmp_path_factory.mktemp("python") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin/python"


@pytest.fixture(scope="module")
def configure(python, tmp_path_factory):
    """Configures the core in a folder without CUDA, and gives what CMake says."""
    folder = tmp_path_factory.mktemp("build")

    def run(*options, **variables):
        command = [CMAKE, "-S", ROOT, "-B", folder, "-DKERAS_SPARSE_CORE_ONLY=ON", *options]
        command += [f"-DPython_EXECUTABLE={python}", f"-DCMAKE_IGNORE_PATH={';'.join(IGNORED)}"]
        removed = ("CUDACXX", "CUDAARCHS", "KERAS_SPARSE_CUDA", "CMAKE_GENERATOR")
        of_machine = {name: text for name, text in os.environ.items() if name not in removed}
        variables["CXX"] = os.environ.get("CXX") or shutil.which("c++")
        done = subprocess.run(
            command,
            env={**of_machine, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return " ".join(done.stdout.split())

    return run


@pytest.fixture
def old_nvcc(python):
    """What a package of an old compiler would bring, as far as its version."""
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    nvcc = packages / "nvidia/cu11/bin/nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 11.8, V11.8.89'\n")
    nvcc.chmod(0o755)
    yield nvcc
    shutil.rmtree(packages / "nvidia")


def test_the_core_alone_has_none_unless_it_is_asked_for(configure):
    assert "CUDA left out (KERAS_SPARSE_CUDA=OFF)" in configure()
    assert "CUDA left out: no nvcc was found" in configure("-DKERAS_SPARSE_CUDA=AUTO")
    said = configure("-DKERAS_SPARSE_CUDA=ON")
    assert "KERAS_SPARSE_CUDA=ON needs nvcc 12.4 or later, and no nvcc was found." in said
    assert "`KERAS_SPARSE_CUDA=ON pip install .`" in said
    assert f'`pip install "{REQUIREMENT[0]}"`' in said
    said = configure("-DKERAS_SPARSE_CUDA=yes")
    assert "must be AUTO, ON or OFF. Received: KERAS_SPARSE_CUDA=yes" in said


def test_that_of_pythons_packages_is_taken_if_none_is_named(configure, old_nvcc):
    said = configure("-DKERAS_SPARSE_CUDA=AUTO")
    assert f"CUDA left out: {old_nvcc} is of CUDA 11.8.89" in said
    said = configure("-DKERAS_SPARSE_CUDA=AUTO", CUDACXX="/bin/false")
    assert "CUDA left out: /bin/false is no nvcc" in said


@pytest.mark.parametrize(("value", "expected"), [("ON", REQUIREMENT), ("AUTO", []), ("OFF", [])])
def test_pip_brings_a_compiler_where_it_is_asked_for(value, expected):
    ask = "from scikit_build_core.build import get_requires_for_build_wheel as get; print(*get())"
    environment = {**os.environ, "KERAS_SPARSE_CUDA": value}
    done = subprocess.run(
        [sys.executable, "-c", ask], cwd=ROOT, env=environment, text=True, capture_output=True
    )
    assert [each for each in done.stdout.split() if "cuda" in each] == expected, done.stderr
