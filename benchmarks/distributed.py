"""How long is a training step on two ranks, and how much do they send each other?

    python -m benchmarks.distributed [--workloads W1 W4] [--tables 26] [--rounds 5] [--no-peers]

W1 and W4 with Adagrad: two ranks of one thread each under `horovodrun`, each with half of every
batch, beside one process of two threads with all of it. The peer is what a Keras user has: all
tables on all ranks and Horovod's gradient tape, in both of its ways. A number is the median of all
steps of all turns. Ranks stand still while the single process has its turn, as their Horovod looks
for work all the time. Beside them are the same three exchanges with nothing around them. What a
rank sends in a step is what the machine says that it has sent to itself, with all headers, so
that nothing else may use its network; `least` is the distinct ids whose rows are elsewhere, their
rows and the gradients of these.
"""

import collections
import contextlib
import os
import pathlib
import signal
import statistics
import tempfile

from benchmarks import workloads
from benchmarks.process import HOROVODRUN
from benchmarks.process import reason_against_ranks
from benchmarks.process import sent_bytes
from benchmarks.process import Workers
from benchmarks.report import markdown
from benchmarks.report import options_of
from benchmarks.report import say
from benchmarks.report import show
from benchmarks.worker import WARM_STEPS

TITLE = "W1 and W4 on two ranks, Adagrad"
NUM_RANKS = 2
PEERS = {
    "dense": "keras.layers.Embedding, Horovod reduces whole tables",
    "sparse": "keras.layers.Embedding, Horovod gathers rows",
}
CASES = {
    "ours": "keras_sparse, 2 ranks x 1 thread",
    "exchanges": "its exchanges of ids, rows and gradients alone",
    "one": "keras_sparse, 1 process x 2 threads",
    **PEERS,
}


class Ranks(Workers):
    """Ranks that take their turns together; one of them is a plain process.

    Args:
        num_ranks: Integer.
        threads: Integer, of each.
    """

    def __init__(self, num_ranks, threads):
        launcher = [HOROVODRUN, "--gloo", "--disable-cache", "-np", str(num_ranks)]
        commands = [launcher if num_ranks > 1 else []]
        super().__init__("benchmarks.peers.over_ranks:Rank", threads, commands, num_ranks)
        self._slowest = {}

    def turn(self, name, options):
        """Returns milliseconds of steps, those of the rank that took longest each time.

        And the bytes that a rank sends in one, as the machine counts what goes through it.
        """
        if name not in self._slowest:  # ranks must take as many steps, so no clock ends a turn
            self._slowest[name] = max(max(times) for times in self.tell("turn", name, 1))
        steps = int(1000 * options.most_seconds / self._slowest[name])
        steps = min(max(1, steps), options.steps)
        before = sent_bytes("lo")
        times = [max(times) for times in zip(*self.tell("turn", name, steps), strict=True)]
        num_steps = (steps + WARM_STEPS) * len(self.pids)
        return times, (sent_bytes("lo") - before) / num_steps

    @contextlib.contextmanager
    def stopped(self):
        for process in self.pids:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in self.pids:
                os.kill(process, signal.SIGCONT)


def measure(path, with_model, options):
    """Returns the times of each case, what a rank sends, by turns, and the least it has to."""
    times, sent = collections.defaultdict(list), collections.defaultdict(list)
    with Ranks(NUM_RANKS, 1) as ranks, Ranks(1, NUM_RANKS) as one:

        def turn(case, launch, name):
            taken, num_bytes = launch.turn(name, options)
            times[case] += taken
            sent[case].append(num_bytes)

        for launch in (ranks, one):
            launch.tell("build", "ours", str(path), with_model, options.warm_steps)
        ranks.tell("build", "exchanges", str(path), with_model, options.warm_steps)
        for peer in [None] if options.no_peers else PEERS:
            names = ["ours", "exchanges"]
            if peer is not None:
                say(f"  building {PEERS[peer]}")
                ranks.tell("build", peer, str(path), with_model, 1)
                names.append(peer)
            for i in range(options.rounds):
                say(f"  round {i + 1} of {options.rounds}")
                for name in names:
                    turn(name, ranks, name)
                with ranks.stopped():
                    turn("one", one, "ours")
            if peer is not None:
                ranks.tell("drop", peer)
        return times, sent, statistics.mean(ranks.tell("least_bytes", "ours"))


def table(name, times, sent, least):
    """Markdown: times against those of our ranks, and what a rank sends."""
    medians = {case: statistics.median(each) for case, each in times.items()}
    rows = []
    for case in (case for case in CASES if case in times):
        cells = [CASES[case], f"{medians[case]:.3g}"]
        cells.append(f"{min(times[case]):.3g}, {len(times[case])}")
        cells.append(f"{medians[case] / medians['ours']:.2f}")
        cells.append("" if case == "one" else f"{statistics.median(sent[case]) / 1e6:.3g}")
        rows.append([*cells, f"{least / 1e6:.3g}" if case == "ours" else ""])
    head = [name, "ms a step", "fastest, steps", "to ours", "MB sent", "least of its tables, MB"]
    return markdown(head, rows)


def main(arguments=None):
    options = options_of(
        __doc__,
        arguments,
        workloads=("W1", "W4"),
        workload_scale=1.0,
        tables=26,
        rounds=5,
        steps=32,
        most_seconds=2.0,
        warm_steps=workloads.NUM_BATCHES,
        no_peers=False,
    )
    reason = reason_against_ranks()
    if reason is not None:
        return f"Left out: {reason}"
    texts = []
    with tempfile.TemporaryDirectory() as folder:
        say(f"{TITLE}: drawing ids")
        workload = workloads.w1(options.workload_scale, options.tables)
        path = workloads.save(workload, pathlib.Path(folder) / "workload")
        for name in options.workloads:
            say(f"{name}:")
            texts.append(table(name, *measure(path, name == "W4", options)))
    return show(TITLE, "\n\n".join(texts))


if __name__ == "__main__":
    main()
