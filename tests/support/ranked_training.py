"""A model, its data and hand-made parts of tables, for tests that train on any number of ranks."""

import keras
import numpy as np
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.tables.table_part import TablePart

BATCH = 12  # of all ranks: a multiple of each number of them
NUM_STEPS = 5
KEYS = (np.arange(20) - 10) * (2**40 + 1)
NUM_IDS = 4  # of a sample
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


def packed_tables(row_dtype="bfloat16", slot_dtype="float32", rounding="stochastic"):
    """Tables of mixed dtypes, three of them without a combiner."""
    dtypes = {"row_dtype": row_dtype, "slot_dtype": slot_dtype, "rounding": rounding}
    return [
        Embedding(40, 8, seed=1, name="packed", **dtypes),
        Embedding(24, 3, seed=2, name="odd", row_dtype="float16", slot_dtype=slot_dtype),
        Embedding(None, 6, "sum", seed=3, name="pooled", **dtypes),
        Embedding(10, 4, seed=4, name="float32"),
    ]


def rows_of_table(table):
    """Ids of all rows that `packed_batch` may train."""
    return KEYS if table.input_dim is None else np.arange(table.input_dim)


def packed_batch(step):
    """The ids of each table and the targets, of all ranks."""
    random = np.random.default_rng(step)
    ids = [
        random.choice(rows_of_table(table)[step % 3 :], (BATCH, NUM_IDS))
        for table in packed_tables()
    ]
    return ids, random.integers(-3, 4, (BATCH, 66)).astype(np.float32)


def own_part(values):
    return values[ksd.rank() :: ksd.size()]


class _TargetsTimesRows(keras.losses.Loss):
    """A loss whose gradients are the targets."""

    def call(self, y_true, y_pred):
        return keras.ops.sum(y_true * y_pred, axis=-1)


def _compiled(layers, optimizer, loss_weight=1.0, in_graph=False):
    """A model whose gradients are its targets.

    Args:
        layers: Function of the inputs that returns the rows of each.
        optimizer: Optimizer for `compile`.
        loss_weight: Float. The number of ranks, as gradients are averaged over ranks.
        in_graph: Boolean. Whether Keras traces its steps.
    """
    inputs = [keras.Input((NUM_IDS,), dtype="int64") for _ in packed_tables()]
    rows = [keras.layers.Flatten()(each) for each in layers(inputs)]
    model = keras.Model(inputs, keras.layers.Concatenate()(rows))
    model.compile(
        optimizer, _TargetsTimesRows(reduction="sum"), [loss_weight], run_eagerly=not in_graph
    )
    optimizer.build(model.trainable_variables)
    return model


class PackedOnRanks:
    """A model of rows in fewer bits that has the same bits on any number of ranks.

    All gradients are small integers, so that their sums are exact in any order. The random bits of
    an update depend on the table's seed, the key, the step and the column alone.

    Args:
        optimizer: Name of a class.
        dtypes: Dict of `row_dtype`, `slot_dtype` and `rounding`.
        mode: `mode` of `prefetch_lookups`, or `None` for steps without. Defaults to `None`.
        options: Of `DistributedEmbedding`.
    """

    def __init__(self, optimizer, dtypes, mode=None, **options):
        self._mode = mode
        self.layer = DistributedEmbedding(packed_tables(**dtypes), name="tables", **options)
        inner = getattr(keras_sparse.optimizers, optimizer)(0.01)
        self.model = _compiled(
            self.layer, ksd.DistributedOptimizer(inner), float(ksd.size()), mode is not None
        )

    def train(self, first, end):
        """Takes the steps with these numbers."""
        if self._mode is None:
            for step in range(first, end):
                ids, targets = packed_batch(step)
                self.model.train_on_batch([own_part(each) for each in ids], own_part(targets))
            return
        steps = [packed_batch(step) for step in range(first, end)]
        ids = [
            np.concatenate([own_part(ids[i]) for ids, _ in steps])
            for i in range(len(packed_tables()))
        ]
        targets = np.concatenate([own_part(targets) for _, targets in steps])
        data = tf.data.Dataset.from_tensor_slices((tuple(ids), targets)).batch(BATCH // ksd.size())
        data = keras_sparse.data.prefetch_lookups(data, self.model, capacity=2, mode=self._mode)
        self.model.fit(data, shuffle=False, verbose=0)

    def outputs(self, step):
        """The outputs of this rank's samples of a step."""
        return self.model.predict_on_batch([own_part(each) for each in packed_batch(step)[0]])

    def rows(self):
        """All rows of each table, by an exchange of ids."""
        ids = [tf.constant(rows_of_table(each))[:, tf.newaxis] for each in packed_tables()]
        return [np.reshape(each, (len(each), -1)) for each in self.layer(ids)]


def packed_on_one_rank(optimizer, dtypes, num_steps):
    """What layers that no rank shares have after as many steps.

    Returns:
        What `PackedOnRanks.rows` must be, and the outputs of all samples of the last step.
    """
    layers = packed_tables(**dtypes)
    optimizer = getattr(keras_sparse.optimizers, optimizer)(0.01)
    model = _compiled(
        lambda inputs: [layer(ids) for layer, ids in zip(layers, inputs, strict=True)], optimizer
    )
    for step in range(num_steps):
        model.train_on_batch(*packed_batch(step))
    rows = [
        np.reshape(layer(tf.constant(rows_of_table(layer))[:, tf.newaxis]), (-1, layer.output_dim))
        for layer in layers
    ]
    return rows, model.predict_on_batch(packed_batch(num_steps - 1)[0])
