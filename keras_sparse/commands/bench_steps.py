import dataclasses
import statistics
import time

import keras
import numpy as np
import tensorflow as tf

from keras_sparse.layers.embedding import Embedding
from keras_sparse.layers.group_embedding import GroupEmbedding
from keras_sparse.optimizers.adagrad import Adagrad

NUM_BATCHES = 8
_ALPHA = 1.05


@dataclasses.dataclass(frozen=True)
class Workload:
    """Tables, and the ids that a batch looks up in each.

    Attributes:
        title: String. What is looked up, with `{rows:,}` for the rows of a table.
        num_tables: Integer.
        rows: Integer. Rows of a table; of one of any keys, how many keys there are to draw from.
        width: Integer.
        hotness: Integer. Ids a sample; where they are summed, the most there are.
        is_ragged: Boolean. Whether samples have 1 to `hotness` ids, which are summed.
        has_keys: Boolean. Whether ids are any 64-bit numbers.
    """

    title: str
    num_tables: int
    rows: int
    width: int
    hotness: int = 1
    is_ragged: bool = False
    has_keys: bool = False

    def batches(self, batch_size):
        """Returns a list of batches of ids, the same each time.

        How often an id occurs falls off with its rank by a power law, and ranks are scattered over
        the table.
        """
        rng = np.random.default_rng(2026)
        shape = (batch_size, self.num_tables * self.hotness)
        return [self._batch(rng, shape) for _ in range(NUM_BATCHES)]

    def _batch(self, rng, shape):
        end = self.rows ** (1 - _ALPHA) - 1
        ranks = np.int64((rng.random(shape) * end + 1) ** (1 / (1 - _ALPHA)))
        if self.has_keys:
            return tf.constant((ranks.view(np.uint64) * 0x9E3779B97F4A7C15).view(np.int64))
        ids = ranks * 7_368_787 % self.rows  # a prime number
        if not self.is_ragged:
            return tf.constant(ids)
        lengths = rng.integers(1, self.hotness + 1, shape[0])
        return tf.RaggedTensor.from_tensor(ids, lengths)


WORKLOADS = {
    "tables": Workload("26 tables of {rows:,} x 16, one id each", 26, 50_000, 16),
    "bags": Workload("{rows:,} x 32, 1 to 20 ids summed", 1, 500_000, 32, 20, is_ragged=True),
    "keys": Workload("any 64-bit keys, 26 a sample, x 32", 1, 200_000, 32, 26, has_keys=True),
}


def layers_of_ours(workload):
    """Returns a list of layers of keras_sparse, and the lookup of a batch in them."""
    input_dim = None if workload.has_keys else workload.rows
    combiner = "sum" if workload.is_ragged else None
    tables = [Embedding(input_dim, workload.width, combiner) for _ in range(workload.num_tables)]
    if len(tables) == 1:
        return tables, tables[0]
    group = GroupEmbedding(tables, output_mode="concat")
    return [group], group


def layers_of_keras(workload):
    """Returns a list of layers of Keras, and the lookup of a batch in them.

    Keys find their rows by a remainder, so that some share one.
    """
    tables = [
        keras.layers.Embedding(workload.rows, workload.width) for _ in range(workload.num_tables)
    ]
    (first, *others) = tables

    def look_up(ids):
        if workload.is_ragged:
            return tf.math.segment_sum(first(ids.values), ids.value_rowids())
        if others:
            return tf.concat([table(ids[:, i]) for i, table in enumerate(tables)], axis=1)
        return first(ids % workload.rows)

    return tables, look_up


def _build(workload, make_layers, optimizer, batch):
    """Returns the functions of a batch that are timed: a lookup, and a training step.

    Args:
        workload: `Workload`.
        make_layers: `layers_of_ours` or `layers_of_keras`.
        optimizer: Optimizer for its layers.
        batch: One of its batches.
    """
    layers, look_up = make_layers(workload)
    look_up(batch)
    variables = [variable for layer in layers for variable in layer.trainable_variables]
    optimizer.build(variables)
    signature = [
        tf.RaggedTensorSpec(batch.shape, tf.int64)
        if workload.is_ragged
        else tf.TensorSpec(batch.shape, tf.int64)
    ]

    @tf.function(input_signature=signature)
    def read(ids):
        return look_up(ids)

    @tf.function(input_signature=signature)
    def train(ids):
        with tf.GradientTape() as tape:
            rows = look_up(ids)
        grads = tape.gradient(rows, variables, output_gradients=tf.ones_like(rows))
        optimizer.apply(grads, variables)

    return {"lookup": read, "step": train}


def measure(workload, batch_size, num_turns):
    """Times a lookup and a training step of keras_sparse and of Keras, which take turns.

    Args:
        workload: `Workload`.
        batch_size, num_turns: Integers. A turn is a call with each batch.

    Returns:
        Dict of dicts: `{"keras_sparse": {"lookup": seconds, "step": seconds}, ...}`, medians.
    """
    with tf.device("CPU"):  # where functions are traced, too
        return _measure(workload, batch_size, num_turns)


def _measure(workload, batch_size, num_turns):
    batches = workload.batches(batch_size)
    ours = _build(workload, layers_of_ours, Adagrad(0.01), batches[0])
    theirs = _build(workload, layers_of_keras, keras.optimizers.Adagrad(0.01), batches[0])
    calls = {"keras_sparse": ours, "keras": theirs}
    # Training makes the rows of keys. Keras' lookups copy a table that has been trained.
    for peer in calls.values():
        for kind in ("step", "lookup"):
            _time_turn(peer[kind], batches)
    turns = [
        {
            name: {kind: _time_turn(call, batches) for kind, call in peer.items()}
            for name, peer in calls.items()
        }
        for _ in range(num_turns)
    ]
    return {
        name: {
            kind: statistics.median(time for turn in turns for time in turn[name][kind])
            for kind in peer
        }
        for name, peer in calls.items()
    }


def _time_turn(call, batches):
    return [_time(call, batch) for batch in batches]


def _time(call, batch):
    start = time.perf_counter()
    call(batch)
    return time.perf_counter() - start
