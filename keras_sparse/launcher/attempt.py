"""Runs all ranks once, by `horovodrun`."""

import codecs
import collections
import contextlib
import ctypes
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import uuid

from keras_sparse.launcher.hosts import host_of_ranks
from keras_sparse.launcher.hosts import num_slots
from keras_sparse.launcher.hosts import run_on_hosts
from keras_sparse.launcher.hosts import text_of
from keras_sparse.launcher.rank_state import RankState
from keras_sparse.launcher.reports import ATTEMPT
from keras_sparse.launcher.reports import MARK

HOROVODRUN = (sys.executable, "-m", "horovod.runner.launch")
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)  # loaded before a child that threads may have forked needs it
# Horovod gives its ranks five seconds between SIGTERM and SIGKILL.
HOROVODRUN_SECONDS = 20
_SECONDS_AT_LEAST = 5  # between ending and killing

_OF_RANK = re.compile(r"\[(\d+)\]<(?:stdout|stderr)>:")
# horovodrun writes the ends of its own lines by themselves: one of a rank may come in between.
_PARTS = re.compile(r"(?=\[\d+\]<(?:stdout|stderr)>:)")
_ENDED = re.compile(r"Process (\d+) exit with status code (\d+)\.")

# Run by the shell of each rank before the command. It reports the process, every second that it is
# alive, and its end, which horovodrun does not see while a child of the rank lives on. A launcher
# that is gone, with its host or killed, closes the pipe that this is written to: then the rank must
# end, because its checkpoints would be in the way of the next attempt.
_RANK = """
echo '{mark}{{"event": "started", "pid": '$$'}}'
(
  trap '' PIPE
  while sleep 1 && kill -0 $$ 2> /dev/null; do
    if ! echo '{mark}{{"event": "alive"}}' 2> /dev/null; then
      kill -TERM $$
      for second in $(seq {grace}); do sleep 1; kill -0 $$ 2> /dev/null || exit; done
      kill -KILL $$
    fi
  done
  echo '{mark}{{"event": "gone"}}' 2> /dev/null
) &
exec "$@"
"""

# Sends a signal to some of the processes that have the name of an attempt in their environment,
# or SIGKILL to all of them.
_SEND = 'for pid; do grep -qs "$0" /proc/$pid/environ && kill -{number} $pid; done; true'
_KILL_ALL = """
of_ranks=$(grep -ls HOROVOD_RANK= $(grep -ls "$0" /proc/[0-9]*/environ) < /dev/null)
kill -KILL $(echo "$of_ranks" | cut -d / -f 3)
"""


class Attempt:
    """Ranks from their start to the end of all of their processes.

    Args:
        hosts: List of `Host`, with as many slots as ranks are to start there.
        command: List of strings, which each rank runs.
        folder: Folder for the output of each rank, or `None`.
        grace: Float. Seconds that ranks have between SIGTERM and SIGKILL.
        options: List of strings. Further options of `horovodrun`.
    """

    def __init__(self, hosts, command, folder=None, grace=60.0, options=()):
        self.hosts = hosts
        self.folder = folder
        self.ranks = [RankState(host) for host in host_of_ranks(hosts)]
        # The last lines that horovodrun printed itself.
        self.lines: collections.deque[str] = collections.deque(maxlen=100)
        self.first_ended = []  # ranks in the order in which they ended
        self._grace = grace
        self._begin = time.monotonic()
        self._ended_for = ""
        self._name = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._logs = {}
        self._is_finished = False
        script = _RANK.format(mark=MARK, grace=int(grace))
        self._horovodrun = subprocess.Popen(
            [
                *(*HOROVODRUN, "--gloo", "-np", str(num_slots(hosts)), "-H", text_of(hosts)),
                *options,
                *("sh", "-c", script, "sh", *command),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, ATTEMPT: self._name},
            start_new_session=True,  # Ctrl-C is for the launcher, which ends the ranks in order
            preexec_fn=_end_with_parent,
        )
        self._readers = [
            threading.Thread(target=self._read, args=pipes, daemon=True)
            for pipes in [
                (self._horovodrun.stdout, sys.stdout),
                (self._horovodrun.stderr, sys.stderr),
            ]
        ]
        for reader in self._readers:
            reader.start()

    @property
    def status(self):
        """The exit status of `horovodrun`: 0 if each rank ended with 0."""
        return self._horovodrun.returncode

    @property
    def ended_for(self):
        """Why the launcher ended the ranks, or `""`."""
        return self._ended_for

    @property
    def seconds(self):
        """How long it has lasted."""
        return time.monotonic() - self._begin

    @property
    def running(self):
        return [rank for rank in self.ranks if rank.is_running]

    @property
    def _has_begun(self):
        return any(rank.pid is not None for rank in self.ranks)

    def end_left_behind(self):
        """Ends what ranks have started, if horovodrun waits for its output alone."""
        ends = [rank.gone for rank in self.ranks if rank.gone is not None]
        now = time.monotonic()
        if len(ends) == len(self.ranks) and now - max(ends) > HOROVODRUN_SECONDS:
            self._kill_the_rest()
            self.ranks[0].gone = now  # it may take another moment

    def last(self, event):
        """Returns the last report of an event by rank 0; `None` without one."""
        return self.ranks[0].reports.get(event)

    def silent(self, seconds):
        """Returns the running ranks from which nothing was heard for so long."""
        now = time.monotonic()
        return [rank for rank in self.running if now - rank.heard > seconds]

    def wait(self, seconds):
        """Waits until all has ended, or for so long. Returns whether all has ended."""
        try:
            self._horovodrun.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        if not self._is_finished:
            self._is_finished = True
            self._finish()
        return True

    def _finish(self):
        if self.status != 0:
            self._kill_the_rest()
        for reader in self._readers:
            reader.join(HOROVODRUN_SECONDS)
        for log in self._logs.values():
            with contextlib.suppress(OSError):
                log.close()

    def end(self, why, grace=None, is_hurried=lambda: False):
        """Ends all ranks: by SIGTERM, and after the seconds of grace by SIGKILL.

        Args:
            why: String, for `ended_for`.
            grace: Float. Defaults to that of the attempt.
            is_hurried: Function. Once it returns `True` ranks are killed.
        """
        if self.wait(0):
            return
        self._ended_for = self._ended_for or why
        grace = self._grace if grace is None else grace
        if not self._has_begun:
            self._horovodrun.terminate()
        told: list[RankState] = []
        end = time.monotonic() + max(grace, _SECONDS_AT_LEAST)
        while not self.wait(0.5) and time.monotonic() < end and not is_hurried():
            # Some may have started only now.
            new = [rank for rank in self.running if rank not in told]
            self._send(signal.SIGTERM, new)
            told += new
        if not self.wait(0):
            self._send(signal.SIGKILL, self.running)
        if not self.wait(HOROVODRUN_SECONDS):
            os.killpg(self._horovodrun.pid, signal.SIGKILL)
            self.wait(None)

    def _kill_the_rest(self):
        """Kills all processes that ranks are or have started."""
        command = ["sh", "-c", _KILL_ALL, self._name]
        run_on_hosts({rank.host: command for rank in self.ranks})

    def _send(self, number, ranks):
        """Sends a signal to ranks, on other hosts by ssh."""
        script = _SEND.format(number=int(number))
        pids = {rank.host: [each.pid for each in ranks if each.host == rank.host] for rank in ranks}
        run_on_hosts({name: ["sh", "-c", script, self._name, *pids[name]] for name in pids})

    def _read(self, pipe, shown_by):
        """Shows what ranks print, and learns from it."""
        text, decoder = "", codecs.getincrementaldecoder("utf-8")("replace")
        # A progress bar ends its lines with a carriage return.
        while chunk := os.read(pipe.fileno(), 1 << 16):
            *lines, text = re.split("(?<=[\r\n])", text + decoder.decode(chunk))
            self._take(lines, shown_by)
        self._take([text] if text else [], shown_by)
        pipe.close()

    def _take(self, lines, shown_by):
        with self._lock:
            parts = [part for line in lines for part in _PARTS.split(line) if part]
            shown = "".join(map(self._shown, parts))
            encoding = shown_by.encoding or "utf-8"
            with contextlib.suppress(OSError, ValueError):  # nobody looks any more; ranks go on
                shown_by.write(shown.encode(encoding, "replace").decode(encoding))
                shown_by.flush()

    def _shown(self, line):
        """Takes a line of a rank or of horovodrun in; returns it without reports."""
        prefix = _OF_RANK.match(line)
        if prefix is None or int(prefix[1]) >= len(self.ranks):
            ended = _ENDED.match(line)
            if ended and int(ended[1]) < len(self.ranks):
                rank = self.ranks[int(ended[1])]
                rank.status = int(ended[2])
                self.first_ended.append(rank)
            self.lines.append(line.rstrip())
            self._log("horovodrun", line)
            # Its traceback at the end of each attempt says less than the launcher does.
            return "" if prefix is None and self._has_begun else line
        shown = self.ranks[int(prefix[1])].take(line[prefix.end() :])
        self._log(f"rank-{prefix[1]}", shown)
        return prefix[0] + shown if shown else ""

    def _log(self, name, text):
        """Writes to the file of a rank. Ranks go on where that fails, as on a full disk."""
        is_progress = text.endswith("\r")
        if self.folder is None or not text or is_progress:
            return
        with contextlib.suppress(OSError):
            if name not in self._logs:
                self._logs[name] = (self.folder / f"{name}.log").open("ab", buffering=0)
            self._logs[name].write(text.encode())


def next_folder(folder):
    """Returns the folder of the next attempt in a folder of logs."""
    numbers = [
        int(path.name.partition("-")[2])
        for path in pathlib.Path(folder).glob("attempt-*")
        if path.name.partition("-")[2].isdigit()
    ]
    return pathlib.Path(folder) / f"attempt-{max(numbers, default=0) + 1:03}"


def _end_with_parent():
    """Lets the kernel end a child, in the child, with the thread that has started it."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
