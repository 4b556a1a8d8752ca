"""How long is a training step on two ranks, and how much do they send each other?

    python -m benchmarks.distributed

W1 and W4 with Adagrad: two ranks of one thread each under `horovodrun`, each with half of every
batch, beside one process of two threads with all of it. The peer is what a Keras user has: all
tables on all ranks and Horovod's gradient tape, in both of its ways. A number is the median of all
steps of all turns. Ranks stand still while the single process has its turn, as their Horovod looks
for work all the time. Beside them are the same three exchanges with nothing around them. What a
rank sends in a step is the mean of ranks; `least` is the distinct ids whose rows are elsewhere,
their rows and the gradients of these.
"""

import argparse
import contextlib
import multiprocessing.connection
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

from benchmarks import workloads
from benchmarks.launcher import HOROVODRUN
from benchmarks.launcher import reason_against_ranks
from benchmarks.timing import environment_of
from benchmarks.timing import REPOSITORY
from benchmarks.timing import say

TITLE = "W1 and W4 on two ranks, Adagrad"
NUM_RANKS = 2
PEERS = {
    "dense": "keras.layers.Embedding, Horovod reduces whole tables",
    "sparse": "keras.layers.Embedding, Horovod gathers rows",
}
KINDS = ("ids", "rows", "gradients", "dense", "least")


class Launch:
    """Some processes that do what they are told together.

    Args:
        num_ranks: Integer. With 1 it is a plain process.
        threads: Integer, of each.
        folder: Where their socket lies.
    """

    def __init__(self, num_ranks, threads, folder):
        address = str(pathlib.Path(folder) / f"ranks-{num_ranks}")
        command = [sys.executable, "-m", "benchmarks.rank", address]
        if num_ranks > 1:
            command = [HOROVODRUN, "--gloo", "--disable-cache", "-np", str(num_ranks), *command]
        environment = environment_of(threads)
        silent = None if os.getenv("BENCHMARKS_VERBOSE") else subprocess.DEVNULL
        self.ranks, self.processes, self.slowest = {}, [], {}
        with multiprocessing.connection.Listener(address) as listener:
            self.launcher = subprocess.Popen(
                command, env=environment, stdout=silent, stderr=silent, cwd=REPOSITORY
            )
            listener._listener._socket.settimeout(600)  # of a launch that fails
            for _ in range(num_ranks):
                try:
                    rank = listener.accept()
                except TimeoutError:
                    self.launcher.terminate()
                    raise
                number, process = rank.recv()
                self.ranks[number] = rank
                self.processes.append(process)

    def tell(self, order, *arguments):
        """Returns what each rank answers."""
        for rank in self.ranks.values():
            rank.send((order, arguments))
        return [self.ranks[number].recv() for number in sorted(self.ranks)]

    def turn(self, name, options):
        """Returns milliseconds of steps: those of the rank that took longest each time."""
        if name not in self.slowest:  # ranks must take as many steps, so no clock ends a turn
            self.slowest[name] = max(max(times) for times in self.tell("turn", name, 1))
        steps = int(1000 * options.most_seconds / self.slowest[name])
        steps = min(max(1, steps), options.steps)
        return [max(times) for times in zip(*self.tell("turn", name, steps), strict=True)]

    @contextlib.contextmanager
    def stopped(self):
        for process in self.processes:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in self.processes:
                os.kill(process, signal.SIGCONT)

    def stop(self):
        for rank in self.ranks.values():
            rank.close()  # a rank ends then
        self.launcher.wait(600)


def measure(path, with_model, options):
    """Returns the times of each case, and what a rank sends of each kind, by peer."""
    times, sent = {"one": [], "ours": [], "exchanges": []}, {}
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        ranks = Launch(NUM_RANKS, 1, folder)
        stack.callback(ranks.stop)
        one = Launch(1, NUM_RANKS, folder)
        stack.callback(one.stop)
        for launch in (ranks, one):
            launch.tell("build", "ours", str(path), with_model, options.warm_steps)
        ranks.tell("build", "exchanges", str(path), with_model, options.warm_steps)
        sent["ours"] = mean_of_ranks(ranks.tell("sent", "ours"))
        for peer in options.peers or [None]:
            if peer is not None:
                say(f"  building {PEERS[peer]}")
                ranks.tell("build", peer, str(path), with_model, 1)
                sent[peer] = mean_of_ranks(ranks.tell("sent", peer))
                times[peer] = []
            for i in range(options.rounds):
                say(f"  round {i + 1} of {options.rounds}")
                times["ours"] += ranks.turn("ours", options)
                times["exchanges"] += ranks.turn("exchanges", options)
                with ranks.stopped():
                    times["one"] += one.turn("ours", options)
                if peer is not None:
                    times[peer] += ranks.turn(peer, options)
            if peer is not None:
                ranks.tell("drop", peer)
    return times, sent


def mean_of_ranks(counts):
    kinds = {kind for each in counts for kind in each}
    return {kind: statistics.mean(each.get(kind, 0) for each in counts) for kind in kinds}


def table(name, times, sent):
    """Markdown: times against those of our ranks, and what a rank sends."""
    medians = {case: statistics.median(each) for case, each in times.items()}
    sent_kinds = [f"{kind}, MB sent" for kind in KINDS]
    head = [name, "ms a step", "fastest, steps", "to ours", *sent_kinds]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    names = {
        "ours": "keras_sparse, 2 ranks x 1 thread",
        "exchanges": "its exchanges of ids, rows and gradients alone",
        "one": "keras_sparse, 1 process x 2 threads",
        **PEERS,
    }
    for case in (case for case in names if case in times):
        cells = [names[case], f"{medians[case]:.3g}"]
        cells.append(f"{min(times[case]):.3g}, {len(times[case])}")
        cells.append(f"{medians[case] / medians['ours']:.2f}")
        counts = sent.get(case, {})
        cells += [f"{counts[kind] / 1e6:.3g}" if kind in counts else "" for kind in KINDS]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", nargs="+", default=["W1", "W4"], choices=["W1", "W4"])
    parser.add_argument("--workload-scale", type=float, default=1.0, help="rows of the tables, x")
    parser.add_argument("--tables", type=int, default=26)
    parser.add_argument("--rounds", type=int, default=5, help="turns with each peer (5)")
    parser.add_argument("--steps", type=int, default=32, help="steps of a turn, at most (32)")
    parser.add_argument("--most-seconds", type=float, default=2.0, help="a turn's time (2)")
    parser.add_argument(
        "--warm-steps", type=int, default=workloads.NUM_BATCHES, help="before the clock starts (32)"
    )
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    return parser.parse_known_args(arguments)[0]


def main(arguments=None):
    options = parse(arguments)
    reason = reason_against_ranks()
    if reason is not None:
        return f"Left out: {reason}"
    texts = []
    with tempfile.TemporaryDirectory() as folder:
        say(f"{TITLE}: drawing ids")
        path = workloads.save(
            workloads.w1(options.workload_scale, options.tables),
            pathlib.Path(folder) / "workload.npz",
        )
        for name in options.workloads:
            say(f"{name}:")
            texts.append(table(name, *measure(path, name == "W4", options)))
    text = "\n\n".join(texts)
    print(f"{TITLE}\n\n{text}\n", flush=True)
    return text


if __name__ == "__main__":
    main()
