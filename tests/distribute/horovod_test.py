import pathlib

import pytest

from ranks import needs_horovod
from ranks import run_ranks

COLLECTIVES = pathlib.Path(__file__).with_name("collectives.py")


@needs_horovod
@pytest.mark.parametrize("num_ranks", [2, 3])
def test_collectives_work_in_a_tf_function(num_ranks):
    status, printed = run_ranks(num_ranks, COLLECTIVES)
    assert status == 0, printed
    for rank in range(num_ranks):
        assert f"rank {rank} of {num_ranks} passed" in printed
