import re

import pytest

from benchmarks import distributed
from ranks import needs_horovod

SMALL = ["--workload-scale", "0.001", "--rounds", "1", "--steps", "2", "--most-seconds", "0.1"]
SMALL += ["--warm-steps", "1", "--tables", "4"]


@needs_horovod
def test_two_ranks_stand_beside_one_process_and_beside_keras():
    text = distributed.main([*SMALL, "--workloads", "W4"])
    cells = [re.split(r" *\| *", line)[1:-1] for line in text.splitlines()[2:]]
    times = {row[0]: float(row[1]) for row in cells}
    assert len(times) == 5
    assert min(times.values()) > 0
    ids, rows, gradients, dense, least = (float(cell or 0) for cell in cells[0][4:])
    assert ids + rows + gradients == pytest.approx(least, rel=0.05), "headers alone are more"
    assert dense > 0
