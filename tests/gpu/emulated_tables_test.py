"""Tests of tables in memory, run with tables in the memory of a GPU, which the CPU emulates."""

import pathlib
import runpy

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.slow("emulated GPU")
def test_tables_in_gpu_memory_are_those_in_memory(run_emulated, tmp_path):
    run_emulated("tests/gpu/run_on_gpu.py", "-q", "--basetemp", tmp_path / "run")


def test_what_runs_on_a_gpu_is_there_and_begins_nothing_after_its_time():
    script = runpy.run_path(ROOT / "tests" / "gpu" / "run_on_gpu.py")
    for name in (*script["SHORT"], *script["ON_REAL_GPUS"], script["OF_RANKS"]):
        path, _, test = name.partition("::")
        text = (ROOT / "tests" / path).read_text()
        assert f"def {test.partition('[')[0]}" in text, name
    script["Budget"](60).pytest_runtest_setup(None)
    with pytest.raises(pytest.skip.Exception, match="0 s are over"):
        script["Budget"](0).pytest_runtest_setup(None)
