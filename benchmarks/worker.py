"""A process that does what a script tells it: each order is a method of a class.

    python -m benchmarks.worker SOCKET MODULE:CLASS

Started by `benchmarks.process.Workers`. The socket is a file, so that orders do not go over a
network that is measured.
"""

import importlib
import multiprocessing.connection
import os
import sys
import time
import traceback

from benchmarks import workloads
from benchmarks.process import is_verbose

WARM_STEPS = 2


def take_turn(step, first, most_steps, most_seconds=float("inf")):
    """Runs steps one after another; returns each one's milliseconds."""
    times = []
    for i in range(WARM_STEPS):
        step((first + i) % workloads.NUM_BATCHES)
    first += WARM_STEPS
    end = time.perf_counter() + most_seconds
    for i in range(most_steps):
        start = time.perf_counter()
        step((first + i) % workloads.NUM_BATCHES)
        now = time.perf_counter()
        times.append((now - start) * 1000)
        if now > end:
            break
    return times


class Steps:
    """The peer of `benchmarks.timing` that this process is."""

    def build(self, module, function, column, in_one_call, path):
        """Builds the peer and runs every batch once, so that all memory has been touched."""
        build = getattr(importlib.import_module(f"benchmarks.peers.{module}"), function)
        self._done = 0
        self._steps_per_call = workloads.NUM_BATCHES if in_one_call else 1
        arguments = {"in_one_call": True} if in_one_call else {}
        self._step = build(workloads.load(path), column, **arguments)
        for i in range(workloads.NUM_BATCHES // self._steps_per_call):
            self._step(i)

    def turn(self, most_steps, most_seconds):
        """Returns milliseconds of steps."""
        times = take_turn(self._step, self._done, most_steps, most_seconds)
        self._done += len(times) + WARM_STEPS
        return [time / self._steps_per_call for time in times]


def answer(connection, make_worker):
    """Does what orders say until the script closes the connection."""
    worker = None
    while True:
        try:
            order, arguments = connection.recv()
        except EOFError:
            return
        try:
            worker = worker or make_worker()
            connection.send((getattr(worker, order)(*arguments), None))
        except Exception as error:
            text = traceback.format_exc() if is_verbose() else f"{type(error).__name__}: {error}"
            connection.send((None, text))


def main():
    address, role = sys.argv[1:]
    module, _, name = role.partition(":")
    with multiprocessing.connection.Client(address) as script:
        script.send((int(os.getenv("HOROVOD_RANK", "0")), os.getpid()))
        answer(script, lambda: getattr(importlib.import_module(module), name)())


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
