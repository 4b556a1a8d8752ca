"""Why an attempt has ended, in a line."""

from keras_sparse.launcher.reports import TRY_AGAIN


def is_preempted(attempt):
    """Returns whether ranks saved their state after a signal, and ended for that."""
    return any(rank.status == TRY_AGAIN for rank in attempt.ranks)


def error_of_all(attempt):
    """Returns the error of a training that cannot begin, as `(line, traceback)`, or `None`.

    All ranks that have ended by themselves have an error of their own, and none has made a step or
    a checkpoint.
    """
    if attempt.ended_for or any(rank.events for rank in attempt.ranks):
        return None
    # Horovod ends the others with SIGTERM once the first has ended.
    ended = [rank for rank in attempt.ranks if rank.killed_by != "SIGTERM"]
    errors = [rank.own_error for rank in ended]
    if not errors or not all(errors):
        return None
    return errors[0], ended[0].traceback


def cause_of(attempt):
    """Returns what ended an attempt, in words."""
    if attempt.ended_for:
        return attempt.ended_for
    if is_preempted(attempt):
        preempted = [rank for rank in attempt.ranks if rank.status == TRY_AGAIN]
        received = [rank for rank in attempt.ranks if (rank.last("stopped") or {}).get("received")]
        rank, where = _first(attempt, received or preempted)
        stopped = rank.last("stopped") or {}
        return f"{where} was asked to stop by {stopped.get('signal', 'a signal')}"
    if waits := next(filter(None, (rank.waits for rank in attempt.ranks)), ""):
        return f"all ranks stood still: {_with_hosts(waits, attempt)}"
    began = [rank for rank in attempt.ranks if rank.pid is not None]
    if not began:
        lines = [line for line in attempt.lines if line.strip()]
        return f"no rank has started: {lines[-1] if lines else 'horovodrun printed nothing'}"
    killed = [r for r in attempt.first_ended if r.killed_by not in ("", "SIGTERM")]
    failed = [rank for rank in attempt.first_ended if rank.own_error]
    # A rank that stands still is killed once the others have ended.
    first = attempt.first_ended[:1]
    if killed and killed[0] in first:
        return f"{_first(attempt, killed)[1]} was killed by {killed[0].killed_by}"
    if failed:
        rank, where = _first(attempt, failed)
        return f"{where} failed: {rank.own_error}"
    lost = [rank for rank in attempt.ranks if rank not in first and not rank.traceback]
    if first and first[0].traceback and lost:
        return f"{_first(attempt, lost)[1]} could not be reached, or stood still"
    if first:
        return f"{_first(attempt, first)[1]} ended with status {first[0].status}"
    return f"horovodrun ended with status {attempt.status}"


def _first(attempt, ranks):
    """Returns the first of some ranks, and its name for people."""
    rank = ranks[0] if ranks else attempt.ranks[0]
    return rank, f"rank {attempt.ranks.index(rank)} on {rank.host}"


def _with_hosts(waits, attempt):
    """Adds hosts to a text such as `"rank 0 in a call, rank 1 in another call"`."""
    for number, rank in enumerate(attempt.ranks):
        waits = waits.replace(f"rank {number} in", f"rank {number} on {rank.host} in")
    return waits
