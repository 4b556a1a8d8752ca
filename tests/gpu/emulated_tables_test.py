"""Tests of tables in memory, run with tables in the memory of a GPU, which the CPU emulates."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]

# Those of a process, which has the package with other ops. Nearly all others pass so, too: not
# those that wait for staged lookups, of which these tables have none.
FILES = (
    "gpu/both_memories.py",
    "native/lookup_test.py",
    "native/apply_gradients_test.py",
    "native/lookup_gradient_test.py",
    "native/saved_rule_test.py",
    "optimizers/sparse_optimizer_test.py",
    "tables/embedding_variable_test.py",
    "tables/embedding_variable_part_test.py",
    "docs/code_on_pages_test.py::test_blocks_run_one_after_another[docs/guide/gpu-memory.md]",
)


@pytest.fixture(scope="session")
def build_info():
    """The file beside the ops whose GPU is emulated."""
    subprocess.run(["make", "emulated-ops"], cwd=ROOT, check=True, capture_output=True)
    (path,) = ROOT.glob("build/py3-none-*/emulated_ops/_build_info.py")
    return path


def test_tables_in_gpu_memory_are_those_in_memory(build_info, driver, tmp_path):
    environment = dict(
        os.environ,
        EMULATED_BUILD_INFO=str(build_info),
        LD_LIBRARY_PATH=str(driver),
        PYTHONPATH=str(pathlib.Path(__file__).parent),
    )
    # It is none of several workers.
    environment = {name: each for name, each in environment.items() if "PYTEST" not in name}
    files = [f"{ROOT}/tests/{name}" for name in FILES]
    options = ["-q", "-p", "emulated_gpu", "-p", "no:cacheprovider", "--basetemp", tmp_path / "run"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
