"""The state of a rank, as the lines that it has printed show it."""

import collections
import json
import re
import signal
import time

from keras_sparse.launcher.reports import MARK

_NUM_LINES = 400  # kept of a rank, for the error at their end
_NUM_SHOWN = 20  # of a rank that ended without an error
_OF_FIT = ("step", "saved")
_TRACEBACK = "Traceback (most recent call last):"
_OF_ANOTHER = re.compile(r"This rank ends because (another rank has ended|all ranks)")
_WAITS = re.compile(r"This rank ends because all ranks have waited .* Received: (.*)")
_NOTE = re.compile(r"\[rank \d+ of \d+\] (?!This rank ends).*")
_ERROR = re.compile(r"[A-Za-z_][\w.]*(: .*)?$")


class RankState:
    """The state of one rank in one attempt.

    Attributes:
        host: String. Name of its host.
        pid: Integer. Its process there; `None` before it has started.
        heard: Float. `time.monotonic()` of its last line.
        advanced: Float. `time.monotonic()` of its last step or checkpoint; `None` outside `fit`.
        gone: Float. `time.monotonic()` when its process had ended; `None` before.
        status: Integer. Its exit status, 128 and the signal's number after a signal; `None` while
            it runs.
        reports: Dict of its last report of each event, without those of its process.
    """

    def __init__(self, host):
        self.host = host
        self.pid = None
        self.heard = time.monotonic()
        self.advanced = None
        self.gone = None
        self.status = None
        self.reports = {}
        self._lines: collections.deque[str] = collections.deque(maxlen=_NUM_LINES)

    def take(self, line):
        """Takes a line in; returns the part of it that people are to see."""
        self.heard = time.monotonic()
        shown, mark, text = line.partition(MARK)
        if not mark:
            self._lines.append(line.rstrip())
            return line
        event = _event_of(text)
        if event is None:  # another process of the rank has printed into it
            return line
        if event["event"] == "started":
            self.pid = event["pid"]
        elif event["event"] == "gone":
            self.gone = self.heard
        elif event["event"] != "alive":
            self.reports[event["event"]] = event
            self.advanced = self.heard if event["event"] in _OF_FIT else None
        return shown

    @property
    def is_training(self):
        """Whether it is between the first step of a `fit` and its end."""
        return self.advanced is not None

    @property
    def is_running(self):
        return self.pid is not None and self.gone is None and self.status is None

    @property
    def traceback(self):
        """The lines of the last Python error that it printed, as one string, or `""`."""
        lines = list(self._lines)
        begins = [i for i, line in enumerate(lines) if _TRACEBACK in line]
        return "\n".join(lines[begins[-1] :]) if begins else ""

    @property
    def own_error(self):
        """Its own error in a line; `""` without one, or if another rank's end was the cause.

        An error that is raised on all ranks begins with the name of the rank that caused it.
        """
        text = self.traceback
        if not text or _OF_ANOTHER.search(text):
            return ""
        if note := _NOTE.search(text):
            return note[0]
        ends = [line for line in text.splitlines()[1:] if _ERROR.match(line)]
        return ends[0] if ends else text.splitlines()[-1]

    @property
    def last_lines(self):
        """The traceback, or the last lines that it printed."""
        return self.traceback or "\n".join(list(self._lines)[-_NUM_SHOWN:])

    @property
    def waits(self):
        """Text of what each rank waited for when all stood still, or `""`."""
        found = _WAITS.search("\n".join(self._lines))
        return found[1] if found else ""

    @property
    def killed_by(self):
        """The name of the signal that ended it, or `""`."""
        number = (self.status or 0) - 128
        return signal.Signals(number).name if number in set(signal.Signals) else ""


def _event_of(text):
    """Returns the dict of a report, or `None` for other text."""
    try:
        event = json.loads(text)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None
