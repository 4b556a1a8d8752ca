"""Causes that are rare on one machine, from what ranks would have printed."""

import re
import types

import pytest

from keras_sparse.distribute.ranks.uncaught_errors import add_rank_error_notes
from keras_sparse.distribute.ranks.watch import stall_text
from keras_sparse.launcher.outcome import cause_of
from keras_sparse.launcher.outcome import failure_at_start
from keras_sparse.launcher.rank_state import RankState
from keras_sparse.launcher.reports import MARK

TERMINATED, KILLED = 143, 137


def printed(error, prefix):
    """The lines that a rank prints as it ends with an error."""
    add_rank_error_notes(error, prefix)
    notes = "\n".join(error.__notes__)
    head = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n'
    return f"{head}{type(error).__name__}: {error}\n{notes}\n"


SHARED = printed(ValueError("[rank 0 of 2] id must be in [0, 9)"), "[rank 1 of 2] ")
OWN = printed(ValueError("no batch"), "[rank 1 of 2] ")
OF_ANOTHER = printed(RuntimeError("Horovod has been shut down"), "[rank 0 of 2] ")
STALLED = stall_text("[rank 0 of 2] ", 30, [{"average_metrics": 1}, {"save": 1}])


def attempt_of(*ranks, order=None, ended_for="", status=1):
    """An attempt with ranks on alpha and beta, each `(exit status, text)`."""
    states = [RankState(host) for host, _ in zip(("alpha", "beta"), ranks, strict=True)]
    for state, (exit_status, text) in zip(states, ranks, strict=True):
        state.take(f'{MARK}{{"event": "started", "pid": 5}}\n')
        for line in text.splitlines(keepends=True):
            assert state.take(line) == line
        state.status = exit_status
    ended = [states[i] for i in (range(len(ranks)) if order is None else order)]
    facts = {"first_ended": ended, "ended_for": ended_for, "lines": [], "status": status}
    return types.SimpleNamespace(ranks=states, last=states[0].reports.get, **facts)


@pytest.mark.parametrize(
    ("ranks", "order", "cause"),
    [
        ([(1, OF_ANOTHER), (1, OWN)], [1, 0], "rank 1 on beta failed: ValueError: no batch"),
        ([(1, OF_ANOTHER), (1, OWN)], [0, 1], "rank 1 on beta failed: ValueError: no batch"),
        ([(1, SHARED), (1, SHARED)], [1, 0], "rank 0 on alpha failed: id must be in"),
        ([(1, OF_ANOTHER), (KILLED, "")], [1, 0], "rank 1 on beta was killed by SIGKILL"),
        # Horovod kills a rank that stands still, after the others have noticed.
        ([(1, OF_ANOTHER), (KILLED, "")], [0, 1], "rank 1 on beta could not be reached"),
        ([(1, OF_ANOTHER), (TERMINATED, "")], [0, 1], "rank 1 on beta could not be reached"),
        ([(139, ""), (TERMINATED, "")], [0, 1], "rank 0 on alpha was killed by SIGSEGV"),
        ([(4, ""), (TERMINATED, "")], [0, 1], "rank 0 on alpha ended with status 4"),
        (
            [(1, STALLED + OF_ANOTHER), (1, OF_ANOTHER)],
            [0, 1],
            r"all ranks stood still: rank 0 on alpha in `MetricAverage` .*, rank 1 on beta in sav",
        ),
    ],
)
def test_the_cause_is_what_happened_first(ranks, order, cause):
    assert re.match(cause, cause_of(attempt_of(*ranks, order=order)))


def test_only_an_failure_at_start_ranks_before_any_step_would_come_again():
    assert failure_at_start(attempt_of((1, OWN), (1, OWN)))[0] == "ValueError: no batch"
    assert OWN.strip() in failure_at_start(attempt_of((1, OWN), (1, OWN)))[1]
    assert failure_at_start(attempt_of((1, OWN), (TERMINATED, ""))) is None  # on one host alone
    full = printed(OSError(28, "No space left on device"), "[rank 1 of 2] ")
    assert failure_at_start(attempt_of((1, full), (1, full))) is None
    assert failure_at_start(attempt_of((1, OWN), (KILLED, ""))) is None
    assert failure_at_start(attempt_of((2, "usage: ..."), (2, ""))) == ("status 2", "usage: ...")
    assert failure_at_start(attempt_of((1, OWN), (0, ""))) is None
    assert failure_at_start(attempt_of((1, OWN), (1, OF_ANOTHER))) is None
    assert failure_at_start(attempt_of((1, OWN), (1, OWN), ended_for="SIGTERM came")) is None
    after_a_step = attempt_of((1, OWN), (1, OWN))
    assert after_a_step.ranks[0].take(f'9/10{MARK}{{"event": "step", "step": 9}}\n') == "9/10"
    assert failure_at_start(after_a_step) is None


def test_a_report_that_another_process_printed_into_is_shown():
    rank = RankState("alpha")
    line = f'{MARK}{{"event": "st other text\n'
    assert rank.take(line) == line
    assert rank.reports == {}
