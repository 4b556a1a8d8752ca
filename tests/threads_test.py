import json
import pathlib
import subprocess

import pytest

import forks
from eviction_cases import CASES as POLICIES
from filter_cases import CASES as FILTERS
from optimizer_cases import OPTIMIZERS

SCRIPT = pathlib.Path(__file__).with_name("print_digests.py")


def digests(num_threads):
    command = [*forks.python(), str(SCRIPT), str(num_threads)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.slow("starts processes")
def test_any_number_of_threads_gives_the_same_bits():
    """Of every optimizer, also clipped, every admission filter and every eviction policy."""
    of_one = digests(1)
    num_optimizers = len(OPTIMIZERS) + len(OPTIMIZERS[::5])
    assert len(of_one) == num_optimizers + len(FILTERS) + len(POLICIES)
    assert digests(8) == of_one
