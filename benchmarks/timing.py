"""Times peers against each other: each in a process of its own, all taking turns.

Every peer is built in its own process, because the thread pools of TensorFlow and PyTorch disturb
each other, and stays there while the peers take turns: a round gives each a turn of 32 steps (fewer
when they are slow), so that whatever else the machine does falls on all of them. Columns come one
after another; with `--together` they take turns too. Where the tables of all do not fit in memory
together, they are split into groups that run one after another.

What is timed is a call as a user makes it, from Python: a `tf.function`, a torch step, a C call. A
peer "in one call" takes a step with each of the 32 batches in one call of a function, and a step's
time is the mean of a call's: what a step takes where calls from Python are no part of it, as with
`compile(steps_per_execution=...)`, though without its loop and iterator. Ids and the gradient that
arrives at the outputs are ready before the clock starts. Two calls at the start of each turn are
not counted.
"""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import statistics
import sys
import tempfile

from benchmarks import workloads
from benchmarks.process import Workers
from benchmarks.report import markdown
from benchmarks.report import say
from benchmarks.report import show

# What can be timed, and how many copies of the table it holds: rows, then slots.
COPIES = {
    "forward": 1,
    "sgd": 1,
    "momentum": 2,
    "adagrad": 2,
    "adagrad_decay": 2,
    "row_wise_adagrad": 1,
    "rmsprop": 2,
    "lazy_adam": 3,
    "adam": 3,
    "adamw": 3,
    "amsgrad": 4,
    "adamax": 3,
    "nadam": 3,
    "adadelta": 3,
    "lion": 2,
    "ftrl": 3,
}
COLUMNS = tuple(COPIES)
# Those of the main comparison: ours, and those of others.
OURS = ("forward", "sgd", "adagrad", "row_wise_adagrad", "lazy_adam", "adam")
STEPS = OURS[1:]
PLAIN = ("forward", "sgd", "adagrad", "lazy_adam", "adam")  # in C++
KERAS = ("forward", "sgd", "adagrad", "adam")
FBGEMM = ("forward", "sgd", "adagrad", "row_wise_adagrad")


@dataclasses.dataclass(frozen=True)
class Peer:
    """A row of the table.

    Attributes:
        name: How the row is called.
        module: A module of `benchmarks.peers`.
        function: Its function `(workload, column) -> step`.
        columns: Those it can fill.
        extra_copies: Copies of the table that it holds beside rows and slots, at its peak.
        in_one_call: Whether a call takes a step with each of the batches.
    """

    name: str
    module: str
    function: str = "build"
    columns: tuple = ("forward", "sgd", "adagrad", "lazy_adam")
    extra_copies: float = 0
    in_one_call: bool = False


class Worker:
    """The process of one peer, and its times."""

    def __init__(self, peer, column, threads):
        self.peer = peer
        self.column = column
        self.times = []
        self.process = Workers("benchmarks.worker:Steps", threads)

    def build(self, path):
        order = (self.peer.module, self.peer.function, self.column, self.peer.in_one_call)
        self.process.tell("build", *order, path)

    def take_turn(self, most_steps, most_seconds):
        (times,) = self.process.tell("turn", most_steps, most_seconds)
        self.times += times


def rotated(names, number):
    """The order of turns in a round: each round begins with another one."""
    first = number % len(names)
    return names[first:] + names[:first]


def groups(entries, table_bytes):
    """Splits pairs of a peer and a column, in order, so that the tables of each group fit in memory
    together.
    """
    with open("/proc/meminfo") as lines:
        facts = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
    budget = 0.75 * facts["MemAvailable"]
    split, used = [[]], 0
    for peer, column in entries:
        need = (COPIES[column] + peer.extra_copies) * table_bytes + (600 << 20)
        if split[-1] and used + need > budget:
            split.append([])
            used = 0
        split[-1].append((peer, column))
        used += need
    return split


def time_group(entries, path, options):
    """Builds the peers of a group and lets them take turns. Returns their workers, stopped, and who
    is left out.
    """
    workers, left_out = [], {}
    columns = ", ".join(dict.fromkeys(column for _, column in entries))
    with contextlib.ExitStack() as stack:
        for peer, column in entries:
            if peer.name in left_out:
                continue
            say(f"  {column}: building {peer.name}")
            worker = Worker(peer, column, options.threads)
            stack.enter_context(worker.process)
            try:
                worker.build(path)
                workers.append(worker)
            except RuntimeError as error:
                left_out[peer.name] = str(error).splitlines()[0]
                say(f"  {column}: {peer.name} is left out: {left_out[peer.name]}")
        for i in range(options.rounds if workers else 0):
            say(f"  {columns}: round {i + 1} of {options.rounds}")
            for worker in rotated(workers, i):
                worker.take_turn(options.steps, options.most_seconds)
    return workers, left_out


def compare(workload, peers, options):
    """Times every peer in every column.

    Returns:
        `{"times": {column: {peer: [ms, ...]}}, "left_out": {peer: reason}}`.
    """
    columns = columns_of(peers, options)
    times, left_out = {column: {} for column in columns}, {}
    table_bytes = workload.num_tables * workload.input_dim * workload.output_dim * 4
    with tempfile.TemporaryDirectory() as folder:
        path = workloads.save(workload, pathlib.Path(folder) / "workload")
        # The columns of a peer side by side, so that they are split last where memory is short.
        for some in [columns] if options.together else [[column] for column in columns]:
            entries = [
                (peer, column)
                for peer in peers
                for column in some
                if column in peer.columns and peer.name not in left_out
            ]
            for group in groups(entries, table_bytes):
                workers, missing = time_group(group, path, options)
                for worker in workers:
                    times[worker.column][worker.peer.name] = worker.times
                left_out |= missing
    return {"times": times, "left_out": left_out}


def columns_of(peers, options):
    """The columns asked for that any peer can fill."""
    return [c for c in options.columns if any(c in peer.columns for peer in peers)]


def table(result, peers, columns, yardstick=None):
    """A Markdown table of medians, a sentence on how far single steps spread, and a table of how
    many times those of a peer, the yardstick, the medians are.
    """
    head = ["ms a step", *columns]
    times = {
        peer.name: [result["times"][column].get(peer.name) for column in columns] for peer in peers
    }
    times = {name: cells for name, cells in times.items() if any(cells)}
    parts = [rows_of(head, times, lambda cell, _: f"{statistics.median(cell):.3g}")]
    if times:
        parts.append(spread(cell for cells in times.values() for cell in cells if cell))
    if yardstick in times:
        base = times[yardstick]
        parts.append(f"As many times as {yardstick}:")
        parts.append(rows_of(head, times, lambda cell, i: ratio(cell, base[i])))
    parts += [f"Left out: {name}: {reason}" for name, reason in result["left_out"].items()]
    return "\n\n".join(parts)


def rows_of(head, times, text_of):
    """A Markdown table, a row a peer; where a peer has no times its cell is empty."""
    rows = [
        [name, *(text_of(cell, i) if cell else "" for i, cell in enumerate(cells))]
        for name, cells in times.items()
    ]
    return markdown(head, rows)


def spread(cells):
    """How far the 90th percentile of a peer's steps is from their median, over lists of times."""
    ratios = [sorted(cell)[int(0.9 * (len(cell) - 1))] / statistics.median(cell) for cell in cells]
    return (
        f"The 90th percentile of steps is {statistics.median(ratios):.2f} times their median as a "
        f"rule, and {max(ratios):.2f} times at most. `--json FILE` writes all times."
    )


def ratio(cell, base):
    return f"{statistics.median(cell) / statistics.median(base):.2f}" if base else ""


def workload_options(question, arguments, name, names):
    """Returns the options of a script for several workloads, and the name of one of these.

    Args:
        question: String: what the script asks.
        arguments: List of strings, or `None` for those of the process.
        name: String, or `None` for an option that says it.
        names: Iterable of the names that there are, of which `"W1"` is one.
    """
    made = parser(question)
    if name is None:
        made.add_argument("--workload", default="W1", choices=names)
    options = made.parse_args(arguments)
    return options, name or options.workload


def parser(question):
    """The options that all scripts share."""
    made = argparse.ArgumentParser(description=question)
    made.add_argument("--threads", type=int, default=2, help="threads of every peer (2)")
    made.add_argument(
        "--workload-scale", type=float, default=1.0, help="rows of the tables, x this"
    )
    made.add_argument("--rounds", type=int, default=7, help="turns of every peer (7)")
    made.add_argument("--steps", type=int, default=32, help="steps of a turn, at most (32)")
    made.add_argument("--most-seconds", type=float, default=2.0, help="a turn's time (2)")
    made.add_argument("--columns", nargs="+", default=list(COLUMNS), choices=COLUMNS)
    made.add_argument(
        "--together",
        action="store_true",
        help="let columns take turns too, as far as memory goes: for the ratio of two of them",
    )
    made.add_argument("--peers", nargs="+", help="only peers whose name contains one of these")
    made.add_argument("--json", type=pathlib.Path, help="also write all times to this file")
    return made


def run(title, make_workload, peers, options, yardstick=None):
    """Draws the ids, times the peers, prints the tables."""
    if options.peers:
        peers = [p for p in peers if any(part in p.name for part in options.peers)]
    try:
        say(f"{title}: drawing ids")
        result = compare(make_workload(options.workload_scale), peers, options)
    except KeyboardInterrupt:
        say("stopped")
        sys.exit(130)
    text = table(result, peers, columns_of(peers, options), yardstick)
    if options.json:
        options.json.write_text(json.dumps(result))
    return show(title, text)
