"""A model, its data and hand-made parts of tables, for tests that train on any number of ranks."""

import keras
import numpy as np
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.tables.table_part import TablePart

BATCH = 12  # of all ranks: a multiple of each number of them
NUM_STEPS = 5
OPTIMIZERS = [
    keras_sparse.optimizers.SGD(0.3),
    keras_sparse.optimizers.Adagrad(0.3),
    keras_sparse.optimizers.Adam(0.03),
]


def fresh(optimizer, **changes):
    """A new optimizer with the config of one, but for what changes."""
    return type(optimizer).from_config({**optimizer.get_config(), **changes})


def make_model():
    """A model with all kinds of tables that every rank has all of: each time with the same rows."""
    keras.utils.set_random_seed(3)
    ids = keras.Input((3,), dtype="int64")
    parts = [
        keras_sparse.layers.Embedding(10, 4, combiner="sum")(ids),
        keras.layers.Flatten()(keras_sparse.layers.Embedding(None, 2)(ids)),
    ]
    outputs = keras.layers.Dense(1)(keras.layers.Concatenate()(parts))
    return keras.Model(ids, outputs)


def make_data():
    """Inputs and targets of all steps and ranks."""
    random = np.random.default_rng(5)
    ids = random.integers(0, 10, (NUM_STEPS * BATCH, 3))
    return ids, random.normal(size=(NUM_STEPS * BATCH, 1)).astype("float32")


def mine(values):
    """What this rank has of each batch."""
    of_batches = np.reshape(values, (NUM_STEPS, BATCH, -1))[:, ksd.rank() :: ksd.size()]
    return np.reshape(of_batches, (-1, values.shape[1]))


def values_of(model):
    """The values of all variables, with the rows of tables by key."""
    return [
        sorted_rows(variable)[1][:, : variable.output_dim]
        if getattr(variable, "is_dynamic", False)
        else variable.numpy()
        for variable in model.trainable_variables
    ]


def sorted_rows(table):
    """The keys of a table, and their rows with slots."""
    chunks = list(table.export())
    if not chunks:
        return np.zeros(0), np.zeros(0)
    keys, records = (np.concatenate(each) for each in zip(*chunks, strict=True))
    order = np.argsort(keys)
    return keys[order], records[order]


def assert_close(ours, theirs):
    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-5, atol=1e-6)


def assert_same_on_all_ranks(values):
    values = [np.asarray(each) for each in values]
    for of_rank in gather_objects(values, "values"):
        for here, there in zip(values, of_rank, strict=True):
            np.testing.assert_array_equal(here, there)


class RowPart:
    """The rows of a table that are this rank's: those with `key % size == rank`."""

    def __init__(self, name, rows):
        self.rows = np.arange(ksd.rank(), len(rows), ksd.size())
        self.variable = keras_sparse.EmbeddingVariable(len(self.rows), rows.shape[1])
        self.variable.assign(rows[self.rows])
        # As layers do: on one rank a table is no part of another.
        if ksd.size() > 1:
            shard = (ksd.rank(), ksd.size())
            self.variable.table.part = TablePart(name, *rows.shape, 0, rows.shape[1], *shard)

    def of(self, rows):
        return rows[self.rows]

    def gradient(self, whole):
        """The part of the gradient of the whole table, as the exchange of a layer gives it."""
        is_mine = whole.indices % ksd.size() == ksd.rank()
        ids = tf.boolean_mask(whole.indices, is_mine) // ksd.size()
        return tf.IndexedSlices(tf.boolean_mask(whole.values, is_mine), ids, self.variable.shape)


class ColumnPart:
    """The columns of a table that are this rank's; or all of them, if there is one slice."""

    def __init__(self, name, rows, num_slices=None):
        num_columns = rows.shape[1] // (num_slices or ksd.size())
        first = 0 if num_slices == 1 else ksd.rank() * num_columns
        self.columns = slice(first, first + num_columns)
        self.variable = keras_sparse.EmbeddingVariable(len(rows), num_columns)
        self.variable.assign(rows[:, self.columns])
        if ksd.size() > 1:
            self.variable.table.part = TablePart(name, *rows.shape, first, num_columns, 0, 1)

    def of(self, rows):
        return rows[:, self.columns]

    def gradient(self, whole):
        return tf.IndexedSlices(whole.values[:, self.columns], whole.indices, self.variable.shape)
