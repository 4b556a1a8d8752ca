"""What does a step on two ranks cost when the rows of coming batches are exchanged ahead?

    python -m benchmarks.async_exchange [--megabits 1000] [--milliseconds 1] [--modes off stale]

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

import copy
import os
import statistics
import time

import numpy as np

from benchmarks import async_lookup
from benchmarks import workloads
from benchmarks.async_lookup import joined
from benchmarks.async_lookup import MODES
from benchmarks.process import reason_against_ranks
from benchmarks.process import sent_bytes
from benchmarks.process import Workers
from benchmarks.report import options_of
from benchmarks.report import say
from benchmarks.report import show
from benchmarks.slow_network import measure_network
from benchmarks.slow_network import reason_against
from benchmarks.slow_network import SlowNetwork
from benchmarks.timing import rotated
from benchmarks.training import import_rows

TITLE = "Exchanges ahead of their steps on two ranks, ms"
NUM_RANKS = 2


class Rank:
    """A rank, whose methods are orders of this script."""

    def __init__(self):
        self.number = int(os.environ["HOROVOD_RANK"])

    def measure_network(self, first_address):
        return measure_network(first_address, self.number == 0)

    def serve(self):
        """Starts the server by which ranks find each other, on one of them. Returns its port."""
        from horovod.runner.common.util import hosts
        from horovod.runner.http.http_server import RendezvousServer

        self.server = RendezvousServer()
        port = self.server.start()
        names = ",".join(f"rank-{number}:1" for number in range(NUM_RANKS))
        self.server.init(hosts.get_host_assignments(hosts.parse_hosts(names), NUM_RANKS))
        return port

    def join(self, address, port, devices):
        """Joins the others, as on a machine of its own, by the network of a device."""
        self.device = devices[self.number]
        settings = {
            "HOSTNAME": f"rank-{self.number}",
            "SIZE": NUM_RANKS,
            "LOCAL_RANK": 0,
            "LOCAL_SIZE": 1,
            "CROSS_RANK": self.number,
            "CROSS_SIZE": NUM_RANKS,
            "CONTROLLER": "gloo",
            "CPU_OPERATIONS": "gloo",
            "GLOO_IFACE": self.device,
            "GLOO_RENDEZVOUS_ADDR": address,
            "GLOO_RENDEZVOUS_PORT": port,
        }
        os.environ.update({f"HOROVOD_{name}": str(value) for name, value in settings.items()})
        from keras_sparse import distribute

        distribute.init()
        return distribute.size()

    def build(self, options):
        """Makes the model, and gives this rank's keys their rows."""
        import keras

        import keras_sparse

        keras.utils.set_random_seed(0)  # the same dense weights on all ranks
        self.options = copy.copy(options)
        self.options.batch_size = options.batch_size // NUM_RANKS
        self.generator = np.random.default_rng([workloads.SEED, self.number])
        self.model, layer, _ = async_lookup.make_model(over_ranks=True)
        optimizer = keras_sparse.optimizers.Adagrad(0.01)
        optimizer = keras_sparse.distribute.DistributedOptimizer(optimizer)
        optimizer.build(self.model.trainable_variables)
        # Each is traced in its first turn: `off` before there is a stage, and the others after.
        self.steps = {way: async_lookup.make_train(self.model, optimizer) for way in options.modes}
        self.table = layer.tables[0]
        import_rows(self.table, options.keys, self.number, NUM_RANKS)

    def turn(self, way):
        """Returns each step's ms, what became of staged lookups, and the bytes sent a step."""
        num_steps = self.options.warm_steps + self.options.steps
        num_batches = num_steps + async_lookup.BATCHES_AHEAD
        ids = async_lookup.draw_ids(self.generator, num_batches, self.options)
        batches = async_lookup.make_batches(ids, self.options)
        ahead = async_lookup.look_ahead(batches, self.model, way, self.options)
        before = sent_bytes(self.device)
        times, counts = async_lookup.take_turn(self.steps[way], ahead, self.table, self.options)
        return times, counts, (sent_bytes(self.device) - before) / num_steps


def measure(options):
    """Returns the turns of each way, a list of what each rank has to tell, and network facts."""
    with SlowNetwork(options.megabits, options.milliseconds) as network:
        commands = [[*network.inside(i), "env", f"HOROVOD_RANK={i}"] for i in range(NUM_RANKS)]
        with Workers(
            "benchmarks.async_exchange:Rank", options.threads, commands, NUM_RANKS
        ) as ranks:
            each = ranks.tell("measure_network", network.addresses[0])
            facts = {**each[-1], "megabits": min(facts["megabits"] for facts in each)}
            (port,) = ranks.tell("serve", numbers=[0])
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
        for way in rotated([*turns], number):
            turns[way].append(ranks.tell("turn", way))
            step = statistics.median(times_of(turns[way][-1]))
            say(f"round {number + 1}, {way}: {step:.3g} ms")
    return turns


def times_of(turn):
    """Each step's time on the rank that took longer."""
    return [max(times) for times in zip(*(times for times, _, _ in turn), strict=True)]


def counts_of(turn):
    """Counts staged lookups by their ends, over all ranks."""
    of_ranks = [counts for _, counts, _ in turn]
    counts = {name: sum(each[name] for each in of_ranks) for name in async_lookup.COUNTS}
    return counts | {"staleness_max": max(each["staleness_max"] for each in of_ranks)}


def report(turns, megabits):
    """Markdown: a row a way, its speed against `off`, and what ranks have sent and staged."""
    of_all = {way: [(times_of(t), counts_of(t)) for t in each] for way, each in turns.items()}
    off = statistics.median(joined(of_all["off"])) if "off" in turns else None

    def more_cells(way, times):
        megabytes = statistics.mean(sent for turn in turns[way] for _, _, sent in turn) / 1e6
        speed = f"{off / statistics.median(times):.2f}" if off else ""
        return [speed, f"{megabytes:.3g}", f"{megabytes * 8e3 / megabits:.3g}"]

    return async_lookup.table(
        ["way", "speed to off", "MB sent", "least"], of_all, more_cells, NUM_RANKS
    )


def describe(options, facts):
    return (
        f"{NUM_RANKS} ranks, {options.keys:,} keys, batches of {options.batch_size:,} in all. "
        "Medians of all steps; of staged lookups those of all ranks. The line: "
        f"{options.megabits:g} Mbit/s each way and a round trip of {options.milliseconds:g} ms; "
        f"measured {facts['megabits']:.0f} Mbit/s each way, both at a time, and "
        f"{facts['milliseconds']:.2f} ms. To carry it took {facts['core']:.0%} of a core."
    )


def main(arguments=None):
    options = options_of(
        __doc__,
        arguments,
        megabits=1000.0,
        milliseconds=1.0,
        modes=MODES,
        keys=1_000_000,
        rounds=3,
        steps=40,
        batch_size=2048,
        warm_steps=async_lookup.WARM_STEPS,
        threads=1,
        num_threads="auto",
        capacity="auto",
    )
    reason = reason_against_ranks() or reason_against()
    if reason is not None:
        return f"Left out: {reason}"
    turns, facts = measure(options)
    return show(TITLE, f"{describe(options, facts)}\n\n{report(turns, options.megabits)}")


if __name__ == "__main__":
    main()
