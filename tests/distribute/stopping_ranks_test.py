"""A signal to one rank saves and ends all, and the next training resumes."""

import json
import os
import pathlib
import re
import select

import pytest

from keras_sparse.launcher.reports import MARK
from keras_sparse.saving import CheckpointInfo
from keras_sparse.saving import latest_checkpoint
from ranks import HOROVODRUN
from ranks import needs_horovod
from ranks import ranks_by_themselves
from ranks import run_ranks

pytestmark = pytest.mark.slow("starts processes")
SCRIPT = pathlib.Path(__file__).with_name("stopping_rank.py")
SUPPORT = pathlib.Path(__file__).parents[1] / "support"
NEVER = 10**6
NUM_STEPS = 8 * 30


def ends(printed):
    """Returns the state of each rank in the end."""
    return sorted(re.findall(r"rank \d ends with \w+", printed))


def wait_for_first(ranks):
    """Waits until one of the processes has ended."""
    ended = [os.pidfd_open(rank.pid) for rank in ranks]
    assert select.select(ended, [], [], 600)[0]
    for each in ended:
        os.close(each)


@needs_horovod
def test_a_signal_to_one_rank_saves_and_ends_all(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT), prepend=os.pathsep)
    status, printed = run_ranks(2, SCRIPT, tmp_path / "whole", NEVER)
    assert status == 0, printed
    expected = ends(printed)
    assert len(expected) == 2

    folder = tmp_path / "run"
    with ranks_by_themselves(2, tmp_path, SCRIPT, folder, 3) as ranks:
        wait_for_first(ranks)
        for rank in ranks:
            rank.terminate()  # as a launcher does with the others
        statuses = [rank.wait(timeout=600) for rank in ranks]
    printed = "".join((tmp_path / str(number)).read_text() for number in range(2))
    assert statuses == [75, 75], printed
    assert "Traceback" not in printed
    assert printed.count("Stopping after SIGTERM") == 1
    saved = CheckpointInfo.read(latest_checkpoint(folder)).step
    assert 3 < saved < NUM_STEPS / 2

    monkeypatch.setenv("KERAS_SPARSE_LAUNCHED", "1")
    status, printed = run_ranks(2, SCRIPT, folder, saved + 5, launcher=HOROVODRUN)
    assert status != 0
    assert not re.search(r"\[\d\]<\w+>:Traceback", printed)
    lines = re.findall(f"{MARK}(.*)", printed)
    reports = [json.loads(line) for line in lines]
    assert reports[0] == {"event": "resumed", "step": saved}
    stops = [each for each in reports if each["event"] == "stopped"]
    saved = CheckpointInfo.read(latest_checkpoint(folder)).step
    assert sorted(each.pop("received") for each in stops) == [False, True]  # of rank 0, and of 1
    assert stops == [{"event": "stopped", "step": saved, "signal": "SIGTERM"}] * 2
    assert reports[-3]["event"] == "saved"

    status, printed = run_ranks(2, SCRIPT, folder, NEVER)
    assert status == 0, printed
    assert ends(printed) == expected
