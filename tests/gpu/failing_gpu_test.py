"""What is said of a GPU that has no room, or fails; the CPU emulates it."""

import pathlib

import pytest

HERE = pathlib.Path(__file__).parent


@pytest.mark.slow("emulated GPU")
def test_a_failing_gpu_is_said_and_the_process_ends_normally(run_emulated, tmp_path):
    plugins = ("-p", "tables_on_gpu", "-p", "no:cacheprovider")
    script = HERE / "failing_gpu.py"
    run_emulated(
        *("-m", "pytest", "-q", *plugins, "--basetemp", tmp_path / "run", script),
        PYTHONPATH=str(HERE),
    )
