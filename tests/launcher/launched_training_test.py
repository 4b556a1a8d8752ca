import pathlib
import re

import pytest

import forks
from ranks import needs_horovod
from ranks import run_ranks

pytestmark = [pytest.mark.slow("starts processes"), needs_horovod]
TRAIN = pathlib.Path(__file__).parents[1] / "distribute" / "train_on_hosts.py"
FAIL = TRAIN.with_name("failing_rank.py")
STEPS = 200


def test_a_training_resumes_after_a_kill_signals_and_a_damaged_checkpoint(launched, tmp_path):
    command = [*forks.python(), TRAIN, tmp_path / "run", STEPS, 0.05]
    first = launched(["--ranks", 3], command)
    first.wait_for(r"step 25\b")
    first.ranks()[1].kill()
    first.wait_for("launch: starting 3 ranks on localhost:3.*\n(.*\n)*launch: starting 3 ranks")
    first.wait_for(r"Resuming from step-000000020, epoch 3, batch 1\n(.*\n)*.*step 35\b")
    of_rank = {each.environ()["HOROVOD_RANK"]: each for each in first.ranks()}
    of_rank["1"].terminate()
    stopped = first.wait_for(
        r"launch: after \d+ s \(step (\d+), last checkpoint at step \1\): "
        r"rank 1 on localhost was asked to stop by SIGTERM\. Starting again\."
    )
    first.wait_for(rf"Resuming from step-0*{stopped[1]},(.*\n)*.*step {int(stopped[1]) + 5}\b")
    first.process.terminate()
    status, said = first.end()
    assert status == 75, first.printed
    assert first.printed.count("Stopping after SIGTERM: saved") == 2
    assert "Traceback" not in first.printed.partition("step 35")[2]
    assert re.fullmatch(
        r"after \d+ s \(step (\d+), last checkpoint at step \1\): launch received SIGTERM\. "
        "Ended with status 75.",
        said[-1],
    )
    *_, before, last = sorted((tmp_path / "run").iterdir())
    own = [path for path in last.rglob("*.h5") if path.stat().st_nlink == 1]  # not of `before` too
    damaged = max(own, key=lambda path: path.stat().st_size)
    damaged.write_bytes(damaged.read_bytes()[:-1])
    second = launched(["--ranks", 2], command)
    status, _ = second.end()
    assert status == 0, second.printed
    assert f"{last.name}.damaged" in "".join(map(str, (tmp_path / "run").iterdir()))
    assert f"Resuming from {before.name}" in second.printed
    _, never_lost = run_ranks(1, TRAIN, tmp_path / "whole", STEPS)
    loss = rf"loss (\S+) after {STEPS}"
    expected = float(re.search(loss, never_lost)[1])
    assert float(re.search(loss, second.printed)[1]) == pytest.approx(expected, abs=1e-5)


def test_ranks_that_stand_still_are_named(launched, monkeypatch):
    monkeypatch.setenv("KERAS_SPARSE_STALL_SECONDS", "1")
    command = [*forks.python(), FAIL, "end"]
    status, said = launched(["--ranks", 2, "--max-restarts", 0], command).end()
    assert status == 1
    assert "all ranks stood still: rank 0 on localhost in a call ('gradients'), " in said[-1]
    assert "rank 1 on localhost in `MetricAverage`" in said[-1]
