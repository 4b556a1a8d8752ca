"""What no input uses has no gradient, and rests: on ranks as on one, and as in Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse.distribute as ksd
from keras_sparse import layers
from optimizer_cases import CLASSES

ROWS, WIDTH = 10, 4
BATCHES = np.arange(4 * ksd.size()).reshape(2, -1, 1) % (ROWS - 1)  # row 9 is in no batch

# Each layer has two tables, of which the second one has no input.
PLACEMENTS = [
    {"column_slice_threshold": 10**6},
    {"row_slice_threshold": 1},
    {"data_parallel_threshold": 10**6},
    {"column_slice_threshold": 10**6, "dp_input": False},
]
DECAY = {"weight_decay": 0.01, "global_clipnorm": 0.5}
# On several ranks one of each kind of slots, and of what a step without a gradient does to a row:
# nothing, decay, slots that shrink, moves. One rank has all classes.
KINDS = ("LazyAdam", "SGD", "Adadelta", "Adam", "RowWiseAdagrad")


def make_tables(kind, place, **options):
    starts = [np.cos(np.arange(ROWS * WIDTH).reshape(ROWS, WIDTH) + i) for i in range(2)]
    return [
        kind(
            ROWS,
            WIDTH,
            embeddings_initializer=lambda shape, dtype, start=start: tf.constant(start, dtype),
            name=f"place_{place}_table_{i}",
            **options,
        )
        for i, start in enumerate(starts)
    ]


def train(optimizer, tables, lookup, wrap):
    """Trains on pooled rows, and two kernels of which the second one is not used either."""
    kernels = [keras.Variable(np.ones(WIDTH, np.float32)) for _ in range(2)]
    variables = [v for table in tables for v in table.trainable_variables] + kernels
    optimizer.build(variables)

    @wrap
    def step(ids):
        with tf.GradientTape() as tape:
            rows = tf.add_n(lookup(ids)) * kernels[0]
            loss = tf.reduce_mean((tf.reduce_sum(rows, axis=1) - 1.0) ** 2)
        optimizer.apply(tape.gradient(loss, variables), variables)

    for ids in BATCHES:
        step(tf.constant(ids))
    return [kernel.numpy() for kernel in kernels]


def eager(step):
    """To trace a function takes longer than the steps."""
    return step


def train_on_ranks(optimizer):
    spread = []
    for place, options in enumerate(PLACEMENTS):
        tables = make_tables(layers.Embedding, place, combiner="sum")
        spread.append(layers.DistributedEmbedding(tables, input_table_map=[0], **options))
        spread[-1].build()
    own = slice(2 * ksd.rank(), 2 * ksd.rank() + 2)

    def lookup(ids):
        given = [ids[own] if each.dp_input else ids for each in spread]
        inputs = [[ids] * len(each.own_inputs) for each, ids in zip(spread, given, strict=True)]
        return [each(ids)[0] for each, ids in zip(spread, inputs, strict=True)]

    wrap = eager if ksd.size() == 1 else tf.function
    kernels = train(ksd.DistributedOptimizer(optimizer), spread, lookup, wrap)
    return kernels + [rows for each in spread for rows in each.get_weights(all_ranks=True)]


def train_alone(optimizer, kind):
    pairs = [make_tables(kind, place) for place in range(len(PLACEMENTS))]
    tables = [table for pair in pairs for table in pair]
    for table in tables:
        table.build(None)

    def lookup(ids):
        return [tf.reduce_sum(used(ids), 1) for used, _ in pairs]

    kernels = train(optimizer, tables, lookup, eager)
    return kernels + [np.asarray(table.get_weights()[0]) for table in tables]


@pytest.mark.filterwarnings("ignore:.*Gradients do not exist")
@pytest.mark.parametrize(
    "case",
    [case for case in CLASSES if ksd.size() == 1 or case.ours.__name__ in KINDS],
    ids=lambda case: case.ours.__name__,
)
def test_ranks_do_what_one_does(case):
    found = train_on_ranks(case.make(**DECAY))
    references = [train_alone(case.make(**DECAY), layers.Embedding)]
    if case.keras and not case.lazy:
        references.append(train_alone(case.make_keras(**DECAY), keras.layers.Embedding))
    for expected in references:
        for i, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6, err_msg=str(i))
    for place in range(len(PLACEMENTS)):
        (start,) = make_tables(keras.layers.Embedding, place)[1:]
        start.build()
        np.testing.assert_array_equal(found[2 + 2 * place + 1], start.get_weights()[0])
    np.testing.assert_array_equal(found[1], np.ones(WIDTH))
