"""One rank of `benchmarks.async_exchange`: does what that script tells all ranks.

    python -m benchmarks.exchange_rank SOCKET RANK

The socket is a file, so that orders do not go over the network that is measured.
"""

import copy
import multiprocessing.connection
import os
import pathlib
import sys
import traceback

import numpy as np

from benchmarks import async_lookup
from benchmarks import workloads
from benchmarks.measure_network import measure_network
from benchmarks.storage_tiers import CHUNK
from benchmarks.storage_tiers import DIM

NUM_RANKS = 2


class Rank:
    """What this process is; each method is an order.

    Args:
        number: Integer, from 0.
    """

    def __init__(self, number):
        self.number = number

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
            "RANK": self.number,
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

        keras.utils.set_random_seed(0)  # the same dense weights on all ranks
        self.options = copy.copy(options)
        self.options.batch_size = options.batch_size // NUM_RANKS
        self.generator = np.random.default_rng([workloads.SEED, self.number])
        self.model, self.layer = make_model()
        self.steps = make_steps(self.model, options.modes)
        import_rows(self.layer.tables[0], options.keys, self.number)

    def turn(self, way):
        """Returns each step's ms, what became of staged lookups, and the bytes sent a step."""
        num_steps = self.options.warm_steps + self.options.steps
        num_batches = num_steps + async_lookup.BATCHES_AHEAD
        ids = async_lookup.draw_ids(self.generator, num_batches, self.options)
        batches = async_lookup.make_batches(ids, self.options)
        ahead = async_lookup.look_ahead(batches, self.model, way, self.options)
        before = sent_bytes(self.device)
        table = self.layer.tables[0]
        times, counts = async_lookup.take_turn(self.steps[way], ahead, table, self.options)
        return times, counts, (sent_bytes(self.device) - before) / num_steps


def make_model():
    """Returns that of `async_lookup`, its table spread over ranks by keys, and the layer of it."""
    import keras

    import keras_sparse

    ids = keras.Input((async_lookup.HOTNESS,), dtype="int64")
    features = keras.Input((async_lookup.NUM_FEATURES,))
    tables = [keras_sparse.layers.Embedding(None, DIM)]
    layer = keras_sparse.layers.DistributedEmbedding(tables, strategy="memory_balanced")
    outputs = async_lookup.make_head(DIM)([layer([ids])[0], features])
    return keras.Model({"ids": ids, "features": features}, outputs), layer


def make_steps(model, ways):
    """Returns a training step for each way, a function of an iterator.

    It is traced in the first turn: `off` before there is a stage, and the others after.
    """
    import keras
    import tensorflow as tf

    import keras_sparse

    optimizer = keras_sparse.distribute.DistributedOptimizer(keras_sparse.optimizers.Adagrad(0.01))
    variables = model.trainable_variables
    optimizer.build(variables)
    loss_of = keras.losses.BinaryCrossentropy(from_logits=True)

    def train(iterator):
        inputs, labels = next(iterator)
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(inputs))
        optimizer.apply(tape.gradient(loss, variables), variables)

    return {way: tf.function(train) for way in ways}


def import_rows(table, num_keys, number):
    """Gives every key of a rank its row."""
    rows = np.random.default_rng(2).normal(0, 0.01, (CHUNK, DIM)).astype(np.float32)
    for start in range(0, num_keys, CHUNK):
        keys = workloads.scramble(np.arange(start, min(start + CHUNK, num_keys)))
        keys = keys[keys % NUM_RANKS == number]
        table.import_(keys, rows[: len(keys)])


def sent_bytes(device):
    """What this process' namespace has sent so far, with all headers."""
    for line in pathlib.Path("/proc/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == device:
            return int(counts.split()[8])
    raise KeyError(device)


def main():
    rank = Rank(int(sys.argv[2]))
    with multiprocessing.connection.Client(sys.argv[1]) as script:
        script.send(rank.number)
        while True:
            try:
                order, arguments = script.recv()
            except EOFError:
                return
            try:
                answer = getattr(rank, order)(*arguments), None
            except Exception:
                answer = None, traceback.format_exc()
            script.send(answer)


if __name__ == "__main__":
    main()
