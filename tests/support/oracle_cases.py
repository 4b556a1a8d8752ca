"""What a model of the oracle is made of: tables, ids of all kinds, and plain pooling of rows."""

import dataclasses
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd

HOTNESS = 3  # of dense ids
KEYS = (np.arange(50) - 25) * (2**40 + 1)  # of dynamic tables, of either sign


@dataclasses.dataclass
class Case:
    """Tables, inputs and options of a `DistributedEmbedding`.

    Attributes:
        tables: List of `(rows, width, combiner)`; rows of `None` make a dynamic table.
        inputs: List of `(table, kind)`: the kind of ids, which `make_ids` knows.
        options: Dict of arguments of the layer.
        batch_size: Integer. Samples of all ranks. By default not a multiple of 3 or 4: ranks have
            parts of different sizes.
        working: Slice. The ranks that have samples, where there are several ranks; the parts of
            the others are empty.
        layer_class: What the layer is given, instead of our `Embedding`.
        dynamic_options: Dict of arguments of the dynamic tables of both models.
        storage: `keras_sparse.StorageOption` of the dynamic tables on ranks.
        spread: Callable. What makes the layer of ranks.
    """

    tables: list
    inputs: list
    options: dict
    batch_size: int = 22
    working: slice = dataclasses.field(default_factory=lambda: slice(None))
    layer_class: Any = None
    dynamic_options: dict = dataclasses.field(default_factory=dict)
    storage: Any = None
    spread: Any = keras_sparse.layers.DistributedEmbedding

    def make_batch(self, generator):
        """Ids of each input, for all ranks."""
        rows = [rows for rows, _, _ in self.tables]
        return [make_ids(k, rows[t], self.batch_size, generator) for t, k in self.inputs]

    def part_of(self, values):
        """The samples of this rank."""
        working = range(ksd.size())[self.working] or range(1)
        place, number = ksd.rank() - working[0], len(working)
        if not 0 <= place < number:
            return values[:0]
        return values[len(values) * place // number : len(values) * (place + 1) // number]

    def width_of(self, i):
        """How many numbers an input gives for each sample."""
        table, kind = self.inputs[i]
        _, width, combiner = self.tables[table]
        return width * (HOTNESS if kind == "dense" and combiner is None else 1)

    def initializer(self, table):
        return keras.initializers.RandomUniform(seed=table)

    def make_layer(self, table, combiner, **options):
        """One of our layers, for a table of the case."""
        rows, width, _ = self.tables[table]
        start = self.initializer(table)
        if rows is None:
            options |= self.dynamic_options
        elif any(kind == "outside" for _, kind in self.inputs):
            options["out_of_range"] = "zero"
        return keras_sparse.layers.Embedding(
            rows,
            width,
            combiner,
            embeddings_initializer=start,
            name=f"table_{table}",
            **options,
        )


def make_ids(kind, rows, batch_size, generator):
    """Returns ids of a whole batch: an array or, ragged, a list of arrays."""
    if kind == "one":
        return draw(generator, rows, batch_size)
    if kind == "column":
        return draw(generator, rows, (batch_size, 1))
    if kind == "dense":
        return draw(generator, rows, (batch_size, HOTNESS))
    bags = [draw(generator, rows, generator.integers(0, 6)) for _ in range(batch_size)]
    if kind == "outside":  # of its table, a third before it and a third behind it
        bags = [bag + rows * generator.integers(-1, 2, len(bag)) for bag in bags]
    return bags


def draw(generator, rows, shape):
    """Ids of a static table, or keys of a dynamic one."""
    return generator.choice(KEYS, shape) if rows is None else generator.integers(0, rows, shape)


def as_input(kind, ids):
    """What a layer takes of such ids."""
    if kind in ("one", "column", "dense"):
        return tf.constant(ids, tf.int64)
    bags = as_ragged(ids, np.int64)
    return bags.to_sparse() if kind == "sparse" else bags


def as_ragged(bags, dtype):
    """Bags of numbers, of which there may be none."""
    numbers = np.concatenate([*bags, np.zeros(0)]).astype(dtype)
    lengths = np.array([len(bag) for bag in bags], np.int64)
    return tf.RaggedTensor.from_row_lengths(numbers, lengths)


def spec_of(kind):
    """The `tf.TypeSpec` of such an input, for a batch of any size."""
    if kind == "sparse":
        return tf.SparseTensorSpec((None, None), tf.int64)
    if kind in ("one", "column", "dense"):
        shapes = {"one": (None,), "column": (None, 1), "dense": (None, HOTNESS)}
        return tf.TensorSpec(shapes[kind], tf.int64)
    return tf.RaggedTensorSpec((None, None), tf.int64, 1, tf.int64)


WEIGHTS_SPEC = tf.RaggedTensorSpec((None, None), tf.float32, 1, tf.int64)


def make_weights(ids):
    """Weights that follow from the ids, so that they are the same wherever a sample is."""
    return as_ragged([0.5 + np.abs(np.asarray(bag)) % 7 for bag in ids], np.float32)


def plain_rows(read, rows, kind, inputs):
    """The rows of all ids of an input, as `read` gives them for ids of a table of `rows` rows."""
    ids = inputs.values if isinstance(inputs, (tf.RaggedTensor, tf.SparseTensor)) else inputs
    if kind != "outside":
        return read(ids)
    inside = (ids >= 0) & (ids < rows)
    return read(tf.where(inside, ids, 0)) * tf.cast(inside, tf.float32)[..., tf.newaxis]


def pool(rows, kind, inputs, weights, combiner):
    """Pools rows, which a Keras layer gave for all ids, in TensorFlow."""
    if combiner is None:
        return inputs.with_values(rows) if kind == "ragged" else rows
    if kind == "column":
        return rows[:, 0]
    if kind == "dense":
        counts = tf.constant(float(HOTNESS))
        total = tf.reduce_sum(rows, axis=1)
    else:
        is_sparse = isinstance(inputs, tf.SparseTensor)
        samples = inputs.indices[:, 0] if is_sparse else inputs.value_rowids()
        segments = (samples, inputs.dense_shape[0] if is_sparse else inputs.nrows())
        weights = tf.ones_like(rows[:, 0]) if weights is None else weights.values
        total = tf.math.unsorted_segment_sum(rows * weights[:, tf.newaxis], *segments)
        power = 2 if combiner == "sqrtn" else 1
        counts = tf.math.unsorted_segment_sum(weights**power, *segments)[:, tf.newaxis]
    if combiner == "sum":
        return total
    return tf.math.divide_no_nan(total, counts if combiner == "mean" else tf.sqrt(counts))
