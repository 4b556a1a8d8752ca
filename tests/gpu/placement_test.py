"""Where ops stand on a machine with a GPU. TensorFlow makes one of a driver whose GPU is none."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent

# Of layers, what is done on a GPU: rows, and their gradients, get the shape of outputs.
OF_ROWS = re.compile(r"(Reshape(_\d+)?(/shape)?|Shape|Identity)$")

pytestmark = pytest.mark.slow("starts processes")


@pytest.fixture(scope="module")
def run(driver):
    """What the script says, on a machine that seems to have a GPU."""
    environment = dict(os.environ, LD_LIBRARY_PATH=str(driver), TF_CPP_MIN_LOG_LEVEL="0")
    command = [sys.executable, HERE / "place_lookups.py"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done


@pytest.fixture(scope="module")
def devices(run):
    """Pairs of an op's name and type, and of CPU or GPU."""
    found = re.findall(r"(\S+): \((\w+(?:>\w+)?)\): \S+device:(\w+):0", run.stderr)
    assert {device for _, _, device in found} == {"CPU", "GPU"}
    return [((name, op), device) for name, op, device in found]


def test_the_rows_that_a_step_makes_are_those_of_its_ids(run):
    # Kernels of the GPU do nothing: ids that had been there would be any.
    made = re.findall(r"(?m)^rows ([\d ]+)$", run.stdout)
    assert made == ["5", "10", "10", "5", "3", "2", "10", "10 5", "10 5"]


def test_a_gpu_copies_rows_from_where_they_were_written(run):
    assert re.findall(r"(?m)^pinned (.*)$", run.stdout) == ["True False"]


def test_tables_are_used_on_the_cpu(devices):
    ours = {(op, device) for (_, op), device in devices if op.startswith("KerasSparse")}
    assert {"KerasSparseLookup", "KerasSparseApply"} <= {op for op, _ in ours}
    assert {device for _, device in ours} == {"CPU"}


def test_ids_are_prepared_beside_their_tables(devices):
    of_layers = [(name, device) for (name, _), device in devices if "embedding" in name]
    assert ("embedding_1/Reshape", "CPU") in of_layers
    on_gpu = {name for name, device in of_layers if device == "GPU"}
    assert {name for name in on_gpu if not OF_ROWS.search(name)} == set()
