"""Starts ranks, and starts them again when they end early."""

import contextlib
import signal
import threading
import time

from keras_sparse.launcher.attempt import Attempt
from keras_sparse.launcher.attempt import next_folder
from keras_sparse.launcher.hosts import answering
from keras_sparse.launcher.hosts import Host
from keras_sparse.launcher.hosts import NoHostsError
from keras_sparse.launcher.hosts import num_slots
from keras_sparse.launcher.hosts import take
from keras_sparse.launcher.hosts import text_of
from keras_sparse.launcher.outcome import cause_of
from keras_sparse.launcher.outcome import failure_at_start
from keras_sparse.launcher.outcome import is_preempted
from keras_sparse.launcher.reports import TRY_AGAIN

LONGEST_PAUSE = 300  # seconds
SILENT_SECONDS = 30  # of a host, whose ranks are heard every second
LOOK_SECONDS = 15  # between looks for more hosts
AVOID_SECONDS = 120  # for a host that is taken back, and answers until then


class Launcher:
    """Runs a training to its end, over as many attempts as it takes.

    Args:
        find_hosts: Function that returns the list of `Host` there may be.
        command: List of strings, which each rank runs.
        num_ranks: Integer. Ranks to start, at most.
        min_ranks: Integer. Waits until hosts have room for so many.
        max_ranks: Integer, in place of `num_ranks`. Once hosts have room for more ranks than run,
            starts again at a checkpoint. `None` for no such restart.
        max_restarts: Integer. Ends after so many restarts without a checkpoint in between.
        log_dir: Folder for the output of ranks, or `None`.
        stall_seconds: Float. Starts again when a `fit` makes no step for so long; `None` for
            never.
        grace: Float. Seconds that ranks have between SIGTERM and SIGKILL.
        options: List of strings. Further options of `horovodrun`.
    """

    def __init__(
        self,
        find_hosts,
        command,
        num_ranks,
        min_ranks,
        max_ranks=None,
        max_restarts=10,
        log_dir=None,
        stall_seconds=None,
        grace=60.0,
        options=(),
    ):
        self._find_hosts = find_hosts
        self._command = command
        self._most_ranks = max_ranks or num_ranks
        self._min_ranks = min_ranks
        self._grows = max_ranks is not None
        self._max_restarts = max_restarts
        self._log_dir = log_dir
        self._stall_seconds = stall_seconds
        self._grace = grace
        self._options = options
        self._signal: int | None = None
        self._num_signals = 0
        self._woken = threading.Event()
        self._last_error = None
        self._num_starts = 0
        self._was_preempted = False
        self._avoided: dict[str, float] = {}  # until when, by the name of a host
        self._num_in_vain = 0  # restarts since the last checkpoint

    def run(self):
        """Returns the exit status: 0 when the training is done."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        while (hosts := self._wait_for_hosts()) is not None:
            attempt = self._start(hosts)
            if attempt is None:
                self._woken.wait(LOOK_SECONDS)
                continue
            self._watch(attempt)
            status = self._status_after(attempt)
            if status is not None:
                return status
            self._woken.wait(self._pause_after(attempt))
        status = self._status_of_signal()
        self._say(f"received {self._signal_name()} between attempts. Ended with status {status}.")
        return status

    def _status_of_signal(self):
        return TRY_AGAIN if self._was_preempted else 128 + (self._signal or 0)

    def _status_after(self, attempt):
        """Returns the exit status, or `None` if ranks are to start again."""
        # A script may end with 0 because of the signal by which the launcher ends it.
        is_done = attempt.last("finished") and not attempt.ranks[0].is_training
        if attempt.status == 0 and (is_done or not attempt.ended_for):
            self._say(f"the training is done, after {_count(self._num_starts, 'start')}.")
            return 0
        self._was_preempted = is_preempted(attempt)
        self._avoid_hosts_of(attempt)
        if self._signal is not None:
            status = self._status_of_signal()
            self._say(f"{_story(attempt)}. Ended with status {status}.{_output(attempt)}")
            return status
        if self._fails_again(attempt):
            return 1
        has_saved = attempt.last("saved") is not None
        self._num_in_vain = 0 if has_saved else self._num_in_vain + 1
        if self._num_in_vain <= self._max_restarts:
            return None
        self._say(
            f"{_story(attempt)}. Ended with status 1, after {self._max_restarts} restarts without "
            f"a checkpoint.{_output(attempt)}"
        )
        return 1

    def _pause_after(self, attempt):
        is_planned = bool(attempt.ended_for) or is_preempted(attempt)
        pause = 0 if is_planned else min(2 ** max(0, self._num_in_vain - 1), LONGEST_PAUSE)
        when = f" in {pause} s" if pause else ""
        self._say(f"{_story(attempt)}. Starting again{when}.{_output(attempt)}")
        return pause

    def _on_signal(self, number, frame):
        self._signal = self._signal or number
        self._num_signals += 1
        self._woken.set()

    def _wait_for_hosts(self):
        """Returns hosts with room for enough ranks, or `None` after a signal."""
        is_told = False
        while self._signal is None:
            try:
                hosts, lack = self._hosts_now(), ""
            except NoHostsError as error:
                hosts, lack = [], f"{error}; "
            if num_slots(hosts) >= self._min_ranks:
                return hosts
            if not is_told:
                found = f"{text_of(hosts)} answers" if hosts else "no host answers"
                self._say(f"{lack}{found}. Waiting for hosts for {self._min_ranks} ranks.")
                is_told = True
            self._woken.wait(LOOK_SECONDS)
        return None

    def _hosts_now(self):
        hosts = answering(self._find_hosts())
        now = time.monotonic()
        kept = [host for host in hosts if self._avoided.get(host.name, now) <= now]
        return take(kept if num_slots(kept) >= self._min_ranks else hosts, self._most_ranks)

    def _avoid_hosts_of(self, attempt):
        """Leaves out hosts whose ranks received a signal, which are about to go."""
        until = time.monotonic() + AVOID_SECONDS
        for rank in attempt.ranks:
            if rank.reports.get("stopped", {}).get("received") and not attempt.ended_for:
                self._avoided[rank.host] = until

    def _start(self, hosts):
        folder = self._make_folder()
        self._num_starts += 1
        self._say(
            f"starting {_count(num_slots(hosts), 'rank')} on {text_of(hosts)}."
            f"{f' Output: {folder}' if folder else ''}"
        )
        try:
            return Attempt(hosts, self._command, folder, self._grace, self._options)
        except OSError as error:  # too little memory for a process, for example
            self._say(f"horovodrun could not start: {error}. Starting again in {LOOK_SECONDS} s.")
            return None

    def _make_folder(self):
        """Makes the folder for the output of an attempt; returns `None` if that fails."""
        while self._log_dir is not None:
            folder = next_folder(self._log_dir)
            try:
                folder.mkdir(parents=True)
                return folder
            except FileExistsError:  # another launcher was faster
                continue
            except OSError as error:
                self._say(f"no output is written to {folder}: {error}")
                break
        return None

    def _watch(self, attempt):
        """Waits for the end of an attempt, which a signal, a lost host or more hosts may bring."""
        more_hosts = _HostWatch(self._hosts_now, num_slots(attempt.hosts), self._grows)
        seen = None
        while not attempt.wait(0.2):
            attempt.end_left_behind()
            saved = attempt.last("saved")
            if self._signal is not None:
                self._end(attempt, f"launch received {self._signal_name()}")
            elif lost := _lost_hosts(attempt):
                self._end(attempt, f"{', '.join(lost)} no longer answers", grace=0)
            elif self._stalls(attempt):
                self._end(attempt, f"no step was made for {self._stall_seconds} s")
            elif saved is not seen and attempt.ranks[0].is_training and more_hosts.found:
                self._end(attempt, f"hosts have room for {num_slots(more_hosts.found)} ranks now")
            seen = saved
        more_hosts.stop()

    def _end(self, attempt, why, grace=None):
        attempt.end(why, grace, is_hurried=lambda: self._num_signals > 1)

    def _stalls(self, attempt):
        advanced, limit = attempt.ranks[0].advanced, self._stall_seconds
        return limit and advanced is not None and time.monotonic() - advanced > limit

    def _fails_again(self, attempt):
        """Ends a training whose ranks fail before their first step, with one error, twice."""
        error = failure_at_start(attempt)
        before, self._last_error = self._last_error, error and error[0]
        if error is None or error[0] != before:
            return False
        self._say(
            f"ranks failed before their first step, twice, with the same error:\n{error[1]}\n"
            f"launch: ended with status 1. Correct the error and start again.{_output(attempt)}"
        )
        return True

    def _signal_name(self):
        return signal.Signals(self._signal or signal.SIGTERM).name

    def _say(self, text):
        with contextlib.suppress(OSError):  # a full disk, or nobody looks any more
            print(f"launch: {text}", flush=True)


class _HostWatch(threading.Thread):
    """Looks now and then whether hosts have room for more ranks.

    Args:
        find: Function that returns hosts, with as many slots as ranks can start there.
        num_ranks: Integer. Ranks that run.
        is_wanted: Boolean. Whether to look at all.

    Attributes:
        found: List of `Host` with room for more ranks than run; empty until there are such.
    """

    def __init__(self, find, num_ranks, is_wanted):
        super().__init__(daemon=True)
        self.found = []
        self._find = find
        self._num_ranks = num_ranks
        self._ends = threading.Event()
        if is_wanted:
            self.start()

    def run(self):
        while not self._ends.wait(LOOK_SECONDS):
            try:
                hosts = self._find()
            except NoHostsError:  # the next start tells of it
                continue
            self.found = hosts if num_slots(hosts) > self._num_ranks else []

    def stop(self):
        self._ends.set()


def _lost_hosts(attempt):
    """Returns the names of hosts whose ranks are silent, and that do not answer."""
    silent = attempt.silent(SILENT_SECONDS)
    hosts = [Host(name, 1) for name in sorted({rank.host for rank in silent})]
    # Where others are heard, the silent ones have lost their way here.
    if len(silent) < len(attempt.running):
        return [host.name for host in hosts]
    heard = answering(hosts)
    return [host.name for host in hosts if host not in heard]


def _story(attempt):
    """Returns how far an attempt came, and why it ended."""
    reports = attempt.ranks[0].reports
    saved = reports.get("saved") or reports.get("resumed")
    steps = [report["step"] for report in reports.values()]
    parts = [f"step {max(steps)}"] if steps else []
    parts += [f"last checkpoint at step {saved['step']}"] if saved else ["no checkpoint"]
    return f"after {attempt.seconds:.0f} s ({', '.join(parts)}): {cause_of(attempt)}"


def _count(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _output(attempt):
    return f" Output: {attempt.folder}" if attempt.folder else ""
