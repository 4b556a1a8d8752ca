"""One peer in a process of its own: takes its turn when told, and answers with step times.

Started by `benchmarks.timing`. It reads one JSON object a line from standard input and answers on
the descriptor that standard output had; what libraries print goes to standard error.
"""

import importlib
import json
import os
import sys
import time
import traceback

from benchmarks import workloads

WARM_STEPS = 2


def take_turn(step, first, most_steps, most_seconds):
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


def prepare(order):
    """Builds the peer and runs every batch once, so that all memory has been touched.

    Returns:
        A function of a batch's number, and the steps that a call of it takes.
    """
    module = importlib.import_module(f"benchmarks.peers.{order['module']}")
    workload = workloads.load(order["workload"])
    build = getattr(module, order["function"])
    if order["in_one_call"]:
        step = build(workload, order["column"], in_one_call=True)
        step(0)
        return step, workloads.NUM_BATCHES
    step = build(workload, order["column"])
    for i in range(workloads.NUM_BATCHES):
        step(i)
    return step, 1


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**facts):
        print(json.dumps(facts), file=answers, flush=True)

    try:
        step, steps_per_call = prepare(json.loads(sys.stdin.readline()))
    except ImportError as error:
        answer(missing=str(error).splitlines()[0])
        return
    except Exception as error:
        traceback.print_exc()
        answer(failed=f"{type(error).__name__}: {error}".splitlines()[0])
        return
    answer(ready=True)
    done = 0
    for line in sys.stdin:
        times = take_turn(step, done, **json.loads(line))
        done += len(times) + WARM_STEPS
        answer(times=[time / steps_per_call for time in times])


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
