import importlib.util
import os
import pathlib
import re
import signal

import pytest

from ranks import HOROVODRUN
from ranks import needs_horovod
from ranks import ranks_by_themselves
from ranks import run_ranks

pytestmark = pytest.mark.slow("starts processes")
SCRIPT = pathlib.Path(__file__).with_name("failing_rank.py")
ENDING = pathlib.Path(__file__).with_name("ending_rank.py")
SUPPORT = pathlib.Path(__file__).parents[1] / "support"


@needs_horovod
def test_one_failing_rank_ends_all_under_a_launcher():
    status, printed = run_ranks(2, SCRIPT, "raise", launcher=HOROVODRUN)
    assert status != 0
    assert "ValueError: the 50th batch cannot be read" in printed
    cause = r"\[rank 1 of 2\] InvalidArgumentError: .*ValueError: the 50th batch cannot be read"
    assert re.search(cause, printed)
    assert "[rank 1 of 2] This rank ends with the error above" in printed


@needs_horovod
def test_ranks_that_wait_in_different_calls_end_and_slow_ones_do_not(monkeypatch):
    monkeypatch.setenv("KERAS_SPARSE_STALL_SECONDS", "1")
    status, printed = run_ranks(2, SCRIPT, "end")
    assert status != 0
    for rank in (0, 1):
        assert f"rank {rank} has done step 49" in printed  # the slow rank has come back
        assert f"[rank {rank} of 2] This rank ends because all ranks have waited" in printed
    assert "rank 0 in a call ('gradients')" in printed
    assert "rank 1 in `MetricAverage` or `average_metrics`, after the last batch (" in printed


@needs_horovod
def test_rounds_that_no_step_comes_for_end_without_a_warning(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT), prepend=os.pathsep)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    status, printed = run_ranks(2, ENDING, fresh=True)  # which reads the level of its log
    assert status == 0, printed
    assert printed.count("is done") == 2
    assert "aborting" not in printed
    assert "OP_REQUIRES failed" not in printed


@pytest.mark.skipif(importlib.util.find_spec("horovod") is None, reason="needs Horovod")
@pytest.mark.parametrize(("failure", "num_ranks"), [("raise", 3), ("kill", 2)])
def test_one_failing_rank_ends_all_by_itself(failure, num_ranks, tmp_path):
    with ranks_by_themselves(num_ranks, tmp_path, SCRIPT, failure) as ranks:
        statuses = [rank.wait(timeout=600) for rank in ranks]
    printed = [(tmp_path / str(rank)).read_text() for rank in range(num_ranks)]
    expected = [1] * num_ranks
    expected[1] = 1 if failure == "raise" else -signal.SIGKILL
    assert statuses == expected, printed
    for rank in range(0, num_ranks, 2):
        assert (
            f"[rank {rank} of {num_ranks}] This rank ends because another rank has ended"
            in printed[rank]
        )
    if failure == "raise":
        assert "ValueError: the 50th batch cannot be read" in printed[1]
        assert "[rank 1 of 3] This rank ends with the error above" in printed[1]
