"""A launcher in a process of its own."""

import pathlib
import re
import subprocess
import threading

import psutil
import pytest

import forks

FOLDER = pathlib.Path(__file__).parent
SECONDS = 120


class Launched:
    """A launcher, whose output is read as it comes.

    Args:
        options: Words after `launch`, without the command.
        command: Words that each rank runs.
    """

    def __init__(self, options, command):
        self.command = list(map(str, command))
        self.process = subprocess.Popen(
            [*forks.python(), FOLDER / "quick_launch.py", *map(str, options), *self.command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.printed = ""
        self._limit = threading.Timer(SECONDS, self.process.kill)  # its output ends then
        self._limit.start()

    def wait_for(self, pattern):
        """Waits for a line; returns the match."""
        while not (found := re.search(pattern, self.printed)):
            line = self.process.stdout.readline()
            assert line, self.printed
            self.printed += line
        return found

    def wait_for_ranks(self, num_ranks):
        """Waits until each scripted rank has printed its first line and has its handlers."""
        for rank in range(num_ranks):
            self.wait_for(rf"\[{rank}\]<stdout>:ready")

    def end(self):
        """Returns the exit status and the lines of the launcher itself."""
        rest, _ = self.process.communicate()
        self.printed += rest
        assert "::keras_sparse::" not in self.printed
        return self.process.returncode, re.findall(r"^launch: (.*)$", self.printed, re.MULTILINE)

    def ranks(self):
        """The processes of ranks that run now."""
        return [
            each
            for each in psutil.process_iter(["cmdline"])
            if each.info["cmdline"] == self.command and each.status() != psutil.STATUS_ZOMBIE
        ]

    def close(self):
        self._limit.cancel()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def launched():
    """Starts launchers, as `Launched` does, that end with the test."""
    begun = []

    def start(options, command):
        begun.append(Launched(options, command))
        return begun[-1]

    yield start
    for each in begun:
        each.close()
