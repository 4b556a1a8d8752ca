"""Filters that count occurrences, over ranks: those of the whole batch, wherever rows are."""

import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from filter_cases import counted
from filter_cases import remembered
from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.layers import All2AllSparseEmbedding
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding

FREQ, DIM = 5, 3
# Of 4 steps and 12 samples: some keys come often, some once, and many several times in a step.
BATCHES = np.random.default_rng(0).zipf(1.5, (4, 12, 4)) % 60 - 20
ADMISSION = {"admission": keras_sparse.CounterFilter(FREQ, count="occurrences")}


def table(combiner, width=DIM):
    return Embedding(None, width, combiner, **ADMISSION)


def spread(combiner, **options):
    layer = DistributedEmbedding([table(combiner, **options)])
    return layer, lambda ids: layer([ids])[0]


def shared(combiner):
    """Two inputs of a table: one whose bags are summed where rows are, and one of rows."""
    layer = DistributedEmbedding([table("sum")], input_table_map=[0, 0])
    return layer, lambda ids: tf.concat([*layer([ids[:, :1], ids[:, 1:]])], 0)


def wide(combiner):
    """Rows are long, so that bags are summed where they are."""
    return spread(combiner, width=200)


def copied(combiner):
    layer = table(combiner)
    return layer, layer


def sok(combiner):
    layer = All2AllSparseEmbedding(combiner, 100, DIM, slot_num=1, max_nnz=4, **ADMISSION)
    return layer, lambda ids: layer(ids[:, tf.newaxis])


CASES = [
    (spread, "sum"),
    (spread, None),
    (shared, "sum"),
    (wide, "sum"),
    (copied, "mean"),
    (sok, "sum"),
]
OPTIMIZERS = [{}, {"global_clipnorm": 0.1}, {"gradient_accumulation_steps": 2, "clipvalue": 0.1}]


def of_ranks(layer):
    """What filters remember and the keys that have rows, each once, over all ranks."""
    waiting, with_rows = {}, set()
    for variable in layer.trainable_variables:
        if hasattr(variable, "native"):
            waiting |= remembered(variable)
            with_rows |= {key for keys, _ in variable.export() for key in keys.tolist()}
    every = gather_objects((waiting, with_rows), "rows")
    all_waiting = {}
    for of_rank, _ in every:
        for key, count in of_rank.items():
            assert all_waiting.setdefault(key, count) == count
    return all_waiting, {key for _, keys in every for key in keys}


@pytest.mark.parametrize("options", OPTIMIZERS, ids=["plain", "clipped", "accumulated"])
@pytest.mark.parametrize(("make", "combiner"), CASES)
def test_are_those_of_all_ranks(make, combiner, options):
    layer, lookup = make(combiner)
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.Adagrad(0.1, **options))

    @tf.function
    def step(ids):
        with tf.GradientTape() as tape:
            rows = lookup(ids)
            loss = tf.reduce_sum(rows) + tf.reduce_sum(rows**2)
        variables = layer.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)

    lookup(tf.constant(BATCHES[0]))  # builds, and counts nothing
    optimizer.build(layer.trainable_variables)
    for ids in BATCHES:
        step(tf.constant(ids[ksd.rank() :: ksd.size()]))
    waiting, with_rows = counted(BATCHES, FREQ)
    assert waiting
    assert with_rows
    assert of_ranks(layer) == (waiting, with_rows)
