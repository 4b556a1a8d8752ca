"""Why an attempt has ended, in a line."""

import re

from keras_sparse.launcher.reports import TRY_AGAIN

# Errors of disks, networks and memory, and of files that a rank which was killed still holds.
_MAY_PASS = re.compile(
    "No space left|Disk quota|Stale file|Input/output error|ResourceExhausted|MemoryError|"
    "Cannot allocate|Connection|timed out|`storage_path` must be"
)
_NAMED = re.compile(r"\[rank (\d+) of \d+\] (.*)")


def is_preempted(attempt):
    """Returns whether ranks saved their state after a signal, and ended for that."""
    return any(rank.status == TRY_AGAIN for rank in attempt.ranks)


def failure_at_start(attempt):
    """Returns why a training cannot begin, as `(line, last lines of a rank)`, or `None`.

    No rank has made a step or a checkpoint, none was killed, and on each host ranks ended by
    themselves, with an error or a status of their own. Errors that may pass, such as that of a full
    disk, do not count.
    """
    if attempt.ended_for or attempt.last("step") or attempt.last("saved"):
        return None
    # Horovod ends the others with SIGTERM once the first has ended.
    ended = [rank for rank in attempt.ranks if rank.killed_by != "SIGTERM"]
    failures = [_failure(rank) for rank in ended]
    is_everywhere = {rank.host for rank in ended} == {rank.host for rank in attempt.ranks}
    if not failures or not all(failures) or not is_everywhere:
        return None
    if any(_MAY_PASS.search(rank.last_lines) for rank in ended):
        return None
    named = _NAMED.match(failures[0])  # whichever rank was the first
    return named[2] if named else failures[0], ended[0].last_lines


def _failure(rank):
    """Returns the error or the exit status of a rank, if no other rank and no signal caused it."""
    if rank.killed_by or not rank.status:
        return ""
    return rank.own_error if rank.traceback else f"status {rank.status}"


def cause_of(attempt):
    """Returns what ended an attempt, in words."""
    if attempt.ended_for:
        return attempt.ended_for
    if is_preempted(attempt):
        stopped = [rank for rank in attempt.ranks if rank.status == TRY_AGAIN]
        received = [r for r in attempt.ranks if r.reports.get("stopped", {}).get("received")]
        rank = (received or stopped)[0]
        name = rank.reports.get("stopped", {}).get("signal", "a signal")
        return f"{_name(attempt, rank)} was asked to stop by {name}"
    if waits := next(filter(None, (rank.waits for rank in attempt.ranks)), ""):
        return f"all ranks stood still: {_with_hosts(waits, attempt)}"
    if all(rank.pid is None for rank in attempt.ranks):
        lines = [line for line in attempt.lines if line.strip()]
        return f"no rank has started: {lines[-1] if lines else 'horovodrun printed nothing'}"
    first = attempt.first_ended[0] if attempt.first_ended else None
    if first is not None and first.killed_by not in ("", "SIGTERM"):
        return f"{_name(attempt, first)} was killed by {first.killed_by}"
    failed = [rank for rank in attempt.first_ended if rank.own_error]
    if failed:
        return _text_of_error(attempt, failed[0])
    # A rank that stands still is killed once the others have ended.
    lost = [rank for rank in attempt.ranks if rank is not first and not rank.traceback]
    if first is not None and first.traceback and lost:
        return f"{_name(attempt, lost[0])} could not be reached, or stood still"
    if first is not None:
        return f"{_name(attempt, first)} ended with status {first.status}"
    return f"horovodrun ended with status {attempt.status}"


def _name(attempt, rank):
    return f"rank {attempt.ranks.index(rank)} on {rank.host}"


def _text_of_error(attempt, rank):
    """Returns the error of a rank, under the name of the rank that the error names."""
    error = rank.own_error
    named = _NAMED.match(error)
    if named and int(named[1]) < len(attempt.ranks):
        rank, error = attempt.ranks[int(named[1])], named[2]
    return f"{_name(attempt, rank)} failed: {error}"


def _with_hosts(waits, attempt):
    """Adds hosts to a text such as `"rank 0 in a call, rank 1 in another call"`."""
    for number, rank in enumerate(attempt.ranks):
        waits = waits.replace(f"rank {number} in", f"rank {number} on {rank.host} in")
    return waits
