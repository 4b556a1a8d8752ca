"""Training steps on a rank's part of W1 and W4: ours, and stock Keras layers under Horovod.

The batch of all ranks is that of the workload, cut into as many parts as there are ranks. W4's
model is that of `dlrm_tensorflow`, on every rank. Adagrad throughout.
"""

import functools
import gc

import keras
import numpy as np
import tensorflow as tf

from benchmarks import workloads
from benchmarks.peers.dlrm_tensorflow import DensePart
from benchmarks.peers.keras_layers import make_layers
from benchmarks.worker import take_turn
from keras_sparse import distribute
from keras_sparse.distribute.ranks import collectives
from keras_sparse.distribute.ranks import runtime
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.optimizers import Adagrad

RATE = 0.01


class Steps:
    """A peer: `call(i)` trains on batch `i`.

    Args:
        workload: `Workload`.
        with_model: Whether it is W4. Otherwise the gradient of the rows is given.
        lookup: Function of a list of ids, one tensor a table.
        tables: List of variables.
        make_tape: Function without arguments.
        optimizer: `keras.optimizers.Optimizer`.
    """

    def __init__(self, workload, with_model, lookup, tables, make_tape, optimizer):
        size = workload.batch_size // distribute.size()
        here = slice(distribute.rank() * size, (distribute.rank() + 1) * size)
        self.ids = [tf.constant(np.stack(batch)[:, here]) for batch in workload.ids]
        self._dense = DensePart(workload.num_tables) if with_model else None
        self._examples = [
            tf.constant(each[here]) for each in workloads.dense_features_and_labels(workload)
        ]
        self._row_grads = [tf.constant(grads[here]) for grads in workload.output_grads()]
        self._lookup = lookup
        self._make_tape = make_tape
        self._optimizer = optimizer
        self.dense_variables = self._dense.variables if with_model else []
        self._variables = tables + self.dense_variables
        optimizer.build(self._variables)
        self._compiled = tf.function(self.train, autograph=False)

    def train(self, ids):
        with self._make_tape() as tape:
            target = self._lookup(tf.unstack(ids))
            if self._dense:
                features, labels = self._examples
                target = self._dense.loss(features, tf.stack(target, axis=1), labels)
        values = [variable.value for variable in self._variables]
        grads = tape.gradient(target, values, None if self._dense else self._row_grads)
        self._optimizer.apply(grads, self._variables)
        return target

    def call(self, i):
        return self._compiled(self.ids[i])


def build_ours(workload, with_model):
    """Every table on one of the ranks."""
    layer = DistributedEmbedding(
        [
            keras.layers.Embedding(workload.input_dim, workload.output_dim, name=f"table_{i}")
            for i in range(workload.num_tables)
        ]
    )
    layer.build()
    optimizer = distribute.DistributedOptimizer(Adagrad(RATE))

    steps = Steps(workload, with_model, layer, layer.tables, tf.GradientTape, optimizer)
    steps.least_bytes = least_bytes(layer.plan, workload, steps.ids)
    return steps


def build_keras(workload, with_model, way):
    """Every table on all ranks. Gradients are made as large as the tables and all-reduced where the
    `way` is `"dense"`, or gathered from all ranks row by row where it is `"sparse"`.
    """
    layers = make_layers(workload)

    def lookup(ids):
        return [layer(each) for layer, each in zip(layers, ids, strict=True)]

    def make_tape():
        return runtime.horovod().DistributedGradientTape(
            tf.GradientTape(), sparse_as_dense=way == "dense"
        )

    tables = [layer.embeddings for layer in layers]
    optimizer = keras.optimizers.Adagrad(RATE)
    return Steps(workload, with_model, lookup, tables, make_tape, optimizer)


class Exchanges:
    """What a step of ours sends and nothing else: three of Horovod's exchanges in a row.

    Args:
        workload: `Workload`.
    """

    def __init__(self, workload):
        size, rank = distribute.size(), distribute.rank()
        tables = [
            keras.layers.Embedding(workload.input_dim, workload.output_dim, name=f"table_{i}")
            for i in range(workload.num_tables)
        ]
        here = DistributedEmbedding(tables).plan.tables_of(rank)
        samples = workload.batch_size // size
        samples = slice(rank * samples, (rank + 1) * samples)
        self._buffers, self._splits = [], []
        for batch in workload.ids:
            num_ids = [0] * size
            for table, ids in enumerate(batch):
                if table not in here:
                    # Of two ranks it is the other one. Ranks are alike: it asks for as many rows.
                    num_ids[1 - rank] += len(np.unique(ids[samples]))
            sizes = [
                words * sum(num_ids) for words in (2, workload.output_dim, workload.output_dim)
            ]
            self._buffers.append([tf.ones((n,), tf.int32) for n in sizes])
            self._splits.append(tf.constant(num_ids, tf.int32))
        self._compiled = tf.function(self._exchange, autograph=False, reduce_retracing=True)

    def _exchange(self, ids, rows, gradients, splits):
        width = tf.size(rows) // tf.maximum(tf.reduce_sum(splits), 1)
        received = [splits]
        for name, words, of_id in (
            ("ids", ids, 2),
            ("rows", rows, width),
            ("grads", gradients, width),
        ):
            with tf.control_dependencies(received[-1:]):
                _, counts = collectives.alltoall(words, splits * of_id, f"bare.{name}")
            received.append(counts)
        return received  # an exchange of which nothing is returned is left out

    def call(self, i):
        return self._compiled(*self._buffers[i], self._splits[i])


def least_bytes(plan, workload, ids):
    """Returns the bytes that this rank must send for tables in a step, the mean of all batches.

    It is the distinct ids whose rows are not here, and their gradients; and the rows that others
    ask for. As ranks are alike, that is taken for as many as it asks for.
    """
    here = plan.tables_of(distribute.rank())
    others = [table for table in range(workload.num_tables) if table not in here]
    num_ids = sum(len(np.unique(batch[table])) for batch in ids for table in others)
    return num_ids / len(ids) * (8 + 2 * 4 * workload.output_dim)


BUILDERS = {
    "ours": build_ours,
    "exchanges": lambda workload, with_model: Exchanges(workload),
    "dense": functools.partial(build_keras, way="dense"),
    "sparse": functools.partial(build_keras, way="sparse"),
}


class Rank:
    """The tables of this process; `benchmarks.distributed` calls each method."""

    def __init__(self):
        distribute.init()
        self._peers = {}
        self._done = {}

    def build(self, name, path, with_model, warm_steps):
        """Builds a peer and takes its first steps: after them all its memory has been touched."""
        peer = BUILDERS[name](workloads.load(path), with_model)
        for i in range(warm_steps):
            peer.call(i)
        self._peers[name] = peer
        self._done[name] = 0

    def turn(self, name, steps):
        """Returns each step's milliseconds."""
        times = take_turn(self._peers[name].call, self._done[name], steps)
        self._done[name] += len(times)
        return times

    def least_bytes(self, name):
        return self._peers[name].least_bytes

    def drop(self, name):
        del self._peers[name]
        gc.collect()
