"""One rank of `benchmarks.distributed`: builds peers and takes turns when that script says so.

The script is connected with every rank and tells all of them the same.
"""

import gc
import multiprocessing.connection
import os
import statistics
import sys

from benchmarks import workloads
from benchmarks.worker import take_turn

NUM_COUNTED = 3


class Rank:
    """What this process has built; each method is an order."""

    def __init__(self):
        self.peers = {}
        self.done = {}

    def build(self, name, path, with_model, warm_steps):
        """Builds a peer and takes its first steps: after them all its memory has been touched."""
        from benchmarks.peers import over_ranks

        peer = over_ranks.BUILDERS[name](workloads.load(path), with_model)
        for i in range(warm_steps):
            peer.call(i)
        self.peers[name] = peer
        self.done[name] = 0

    def turn(self, name, steps):
        """Returns each step's milliseconds."""
        times = take_turn(self.peers[name].call, self.done[name], steps, float("inf"))
        self.done[name] += len(times)
        return times

    def sent(self, name):
        """Returns the bytes a step that this rank sends to others, by kind."""
        counts = [self.peers[name].sent(i) for i in range(NUM_COUNTED)]
        return {kind: statistics.mean(each[kind] for each in counts) for kind in counts[0]}

    def drop(self, name):
        del self.peers[name]
        gc.collect()


def main():
    from keras_sparse import distribute

    distribute.init()
    rank = Rank()
    with multiprocessing.connection.Client(sys.argv[1]) as script:
        script.send((distribute.rank(), os.getpid()))
        while True:
            try:
                order, arguments = script.recv()
            except EOFError:
                return
            script.send(getattr(rank, order)(*arguments))


if __name__ == "__main__":
    main()
