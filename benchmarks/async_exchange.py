"""What does a step on two ranks cost when the rows of coming batches are exchanged ahead?

    python -m benchmarks.async_exchange [--megabits 1000] [--milliseconds 1] [--modes off,stale]

The DLRM of `benchmarks.async_lookup` on two ranks of one thread, each with half of every batch: one
dynamic table, of which each rank has half of the keys, so that half of the rows that a rank looks
up come from the other one. It trains with lookups in the step (`off`) and with those of
`keras_sparse.data.prefetch_lookups`, which take turns in the same processes on the same table. A
step's time is that of the rank that took longer.

Ranks are in network namespaces of one machine with a line between them (`SlowNetwork`): each way it
carries `--megabits`, 10^6 bits a second, and a round trip takes `--milliseconds`, half of it each
way. What it really does is measured before. `least` is the time that what a rank sends in a step,
with all headers, keeps one way of the line busy: no step can be faster. It needs root.
"""

import argparse
import contextlib
import itertools
import multiprocessing.connection
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks import async_lookup
from benchmarks.async_lookup import MODES
from benchmarks.async_lookup import STAGED
from benchmarks.exchange_rank import NUM_RANKS
from benchmarks.launcher import reason_against_ranks
from benchmarks.slow_network import reason_against
from benchmarks.slow_network import SlowNetwork
from benchmarks.timing import environment_of
from benchmarks.timing import REPOSITORY

TITLE = "Exchanges ahead of their steps on two ranks, ms"
MOST_SECONDS = 600  # of a start and of an order


class Ranks:
    """A context with processes of `benchmarks.exchange_rank`, each in a namespace of a network.

    Args:
        network: `SlowNetwork`.
        threads: Integer, of each.
    """

    def __init__(self, network, threads):
        self._network = network
        self._environment = environment_of(threads)
        self._connections = {}

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            address = str(pathlib.Path(folder) / "ranks")
            with multiprocessing.connection.Listener(address) as listener:
                listener._listener._socket.settimeout(MOST_SECONDS)
                for number in range(NUM_RANKS):
                    stack.callback(stop, self._start(number, address))
                for _ in range(NUM_RANKS):
                    connection = stack.enter_context(listener.accept())
                    self._connections[connection.recv()] = connection
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception):
        self._stack.close()

    def _start(self, number, address):
        command = [sys.executable, "-m", "benchmarks.exchange_rank", address, str(number)]
        silent = None if os.getenv("BENCHMARKS_VERBOSE") else subprocess.DEVNULL
        return subprocess.Popen(
            [*self._network.inside(number), *command],
            env=self._environment,
            stdout=silent,
            stderr=silent,
            cwd=REPOSITORY,
        )

    def tell(self, order, *arguments, ranks=range(NUM_RANKS)):
        """Returns what each rank answers. It raises what the first one to fail has to say."""
        waiting = {self._connections[number]: number for number in ranks}
        for connection in waiting:
            connection.send((order, arguments))
        answers = {}
        while waiting:
            ready = multiprocessing.connection.wait(waiting, MOST_SECONDS)
            if not ready:
                raise TimeoutError(f"No answer to {order} in {MOST_SECONDS} s from {waiting}")
            for connection in ready:
                number = waiting.pop(connection)
                answers[number], error = connection.recv()
                if error:
                    raise RuntimeError(f"[rank {number} of {NUM_RANKS}] {order}: {error}")
        return [answers[number] for number in ranks]


def stop(process):
    """Lets a process end, whose connection is closed; it may wait for another that has ended."""
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def measure(options):
    """Returns the turns of each way, a list of what each rank has to tell, and network facts."""
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(SlowNetwork(options.megabits, options.milliseconds))
        ranks = stack.enter_context(Ranks(network, options.threads))
        each = ranks.tell("measure_network", network.addresses[0])
        facts = {**each[-1], "megabits": min(facts["megabits"] for facts in each)}
        (port,) = ranks.tell("serve", ranks=[0])
        ranks.tell("join", network.addresses[0], port, network.names)
        ranks.tell("build", options)
        start, start_of_line = time.perf_counter(), network.seconds_of_line()
        turns = take_turns(ranks, options)
        seconds = network.seconds_of_line() - start_of_line
        facts["core"] = seconds / (time.perf_counter() - start)
        return turns, facts


def take_turns(ranks, options):
    turns = {way: [] for way in options.modes}
    for number in range(options.rounds):
        first = number % len(turns)
        for way in [*turns][first:] + [*turns][:first]:
            turns[way].append(ranks.tell("turn", way))
            step = statistics.median(times_of(turns[way][-1]))
            print(f"round {number + 1}, {way}: {step:.3g} ms", flush=True)
    return turns


def times_of(turn):
    """Each step's time on the rank that took longer."""
    return [max(times) for times in zip(*(times for times, _, _ in turn), strict=True)]


def joined(lists):
    return list(itertools.chain.from_iterable(lists))


def table(turns, megabits):
    """Markdown: a row a way, its speed against `off`, and what ranks have sent and staged."""
    times = {way: [times_of(turn) for turn in each] for way, each in turns.items()}
    medians = {way: statistics.median(joined(each)) for way, each in times.items()}
    head = ["way", "step", "fastest, steps", "rounds", "speed to off", "MB sent", "least", *STAGED]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for way, each in times.items():
        all_times = joined(each)
        answers = joined(turns[way])
        megabytes = statistics.mean(sent for _, _, sent in answers) / 1e6
        speed = f"{medians['off'] / medians[way]:.2f}" if "off" in medians else ""
        rounds = " ".join(f"{statistics.median(turn):.3g}" for turn in each)
        cells = [way, f"{medians[way]:.3g}", f"{min(all_times):.3g}, {len(all_times)}", rounds]
        cells += [speed, f"{megabytes:.3g}", f"{megabytes * 8e3 / megabits:.3g}"]
        counts = [counts for _, counts, _ in answers]
        staged = async_lookup.staged_cells(counts, len(all_times) * NUM_RANKS)
        lines.append("| " + " | ".join(cells + ([""] * 4 if way == "off" else staged)) + " |")
    return "\n".join(lines)


def describe(options, facts):
    return (
        f"{NUM_RANKS} ranks, {options.keys:,} keys, batches of {options.batch_size:,} in all. "
        "Medians of all steps; of staged lookups those of all ranks. The line: "
        f"{options.megabits:g} Mbit/s each way and a round trip of {options.milliseconds:g} ms; "
        f"measured {facts['megabits']:.0f} Mbit/s each way, both at a time, and "
        f"{facts['milliseconds']:.2f} ms. To carry it took {facts['core']:.0%} of a core."
    )


def parse(arguments):
    def number(text):
        return text if text == "auto" else int(text)

    def modes(text):
        chosen = text.split(",")
        if not set(chosen) <= set(MODES):
            raise argparse.ArgumentTypeError(f"must be of {','.join(MODES)}. Received: {text}")
        return chosen

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabits", type=float, default=1000, help="a second each way (1000)")
    parser.add_argument("--milliseconds", type=float, default=1, help="of a round trip (1)")
    parser.add_argument("--modes", type=modes, default=list(MODES), help="off,exact,stale")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3, help="turns of every way (3)")
    parser.add_argument("--steps", type=int, default=40, help="steps of a turn (40)")
    parser.add_argument("--batch-size", type=int, default=2048, help="of all ranks (2048)")
    parser.add_argument(
        "--warm-steps", type=int, default=async_lookup.WARM_STEPS, help="before a turn's (64)"
    )
    parser.add_argument("--threads", type=int, default=1, help="of a rank (1)")
    parser.add_argument("--num-threads", type=number, default="auto")
    parser.add_argument("--capacity", type=number, default="auto")
    return parser.parse_known_args(arguments)[0]


def main(arguments=None):
    options = parse(arguments)
    reason = reason_against_ranks() or reason_against()
    if reason is not None:
        return f"Left out: {reason}"
    turns, facts = measure(options)
    text = f"{describe(options, facts)}\n\n{table(turns, options.megabits)}"
    print(f"{TITLE}\n\n{text}\n", flush=True)
    return text


if __name__ == "__main__":
    main()
