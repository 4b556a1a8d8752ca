"""One plain Keras process beside a training on all ranks: both see the same batches.

Every rank computes the plain model on the whole batches, and compares its own results with it.
"""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.layers import DistributedEmbedding

STEPS = 5


@dataclasses.dataclass
class Case:
    """Tables, inputs and options of a `DistributedEmbedding`.

    Attributes:
        tables: List of `(rows, width, combiner)`; rows of `None` make a dynamic table.
        inputs: List of `(table, kind)`: the kind of ids, which `make_ids` knows.
        options: Dict of arguments of the layer.
        batch_size: Integer. Samples of all ranks. By default not a multiple of 3 or 4: ranks have
            parts of different sizes.
    """

    tables: list
    inputs: list
    options: dict
    batch_size: int = 22


def make_ids(kind, rows, batch_size, generator):
    """Returns ids of a whole batch: an array or, ragged, a list of arrays."""
    if kind == "one":
        return draw(generator, rows, batch_size)
    if kind == "column":
        return draw(generator, rows, batch_size, 1)
    if kind == "dense":
        return draw(generator, rows, batch_size, 3)
    return [draw(generator, rows, generator.integers(0, 6)) for _ in range(batch_size)]


def draw(generator, rows, *shape):
    """Ids of a static table, or keys of either sign."""
    if rows is not None:
        return generator.integers(0, rows, shape)
    return (generator.integers(0, 50, shape) - 25) * (2**40 + 1)


def part_of(values, rank, size):
    """The samples of a rank."""
    return values[len(values) * rank // size : len(values) * (rank + 1) // size]


def as_input(kind, ids):
    """What a layer takes of such ids."""
    if kind in ("ragged", "weighted"):
        return tf.ragged.constant(
            [list(bag) for bag in ids], dtype=tf.int64, row_splits_dtype=tf.int64
        )
    if kind == "sparse":
        return as_input("ragged", ids).to_sparse()
    return tf.constant(ids, tf.int64)


def make_weights(kind, ids):
    """Weights that follow from the ids, so that they are the same wherever a sample is."""
    if kind != "weighted":
        return None
    bags = [[0.5 + abs(int(i)) % 7 for i in bag] for bag in ids]
    return tf.ragged.constant(bags, dtype=tf.float32, ragged_rank=1, row_splits_dtype=tf.int64)


def pool(rows, kind, ids, combiner):
    """Pools rows, which a Keras layer gave for all ids, in TensorFlow."""
    if combiner is None:
        return rows
    if kind == "column":
        return rows[:, 0]
    if kind == "dense":
        counts = tf.constant(3.0)
        total = tf.reduce_sum(rows, axis=1)
    else:
        bags = as_input("ragged", ids)
        weights = make_weights(kind, ids)
        weights = tf.ones_like(bags.values, tf.float32) if weights is None else weights.values
        segments = (bags.value_rowids(), bags.nrows())
        total = tf.math.unsorted_segment_sum(rows * weights[:, tf.newaxis], *segments)
        power = 2 if combiner == "sqrtn" else 1
        counts = tf.math.unsorted_segment_sum(weights**power, *segments)[:, tf.newaxis]
    if combiner == "sum":
        return total
    return tf.math.divide_no_nan(total, counts if combiner == "mean" else tf.sqrt(counts))


class PlainModel:
    """Keras' own layers, one a table; a dynamic table is one of ours."""

    def __init__(self, case):
        self.case = case
        self.tables = []
        for i, (rows, width, _) in enumerate(case.tables):
            table = keras_sparse.layers.Embedding(
                rows, width, embeddings_initializer=keras.initializers.RandomUniform(seed=i)
            )
            if rows is not None:
                start = table(tf.range(rows))
                table = keras.layers.Embedding(rows, width)
                table.build()
                table.embeddings.assign(start)
            self.tables.append(table)
        self.head = keras.layers.Dense(3, kernel_initializer=keras.initializers.HeNormal(seed=0))

    @property
    def trainable_variables(self):
        layers = [*self.tables, self.head]
        return [variable for layer in layers for variable in layer.trainable_variables]

    def outputs(self, batch):
        outputs = []
        for (table, kind), ids in zip(self.case.inputs, batch, strict=True):
            flat = as_input(kind, ids)
            flat = flat.values if isinstance(flat, (tf.RaggedTensor, tf.SparseTensor)) else flat
            rows = self.tables[table](flat)
            outputs.append(pool(rows, kind, ids, self.case.tables[table][2]))
        return outputs

    def __call__(self, batch):
        outputs = self.outputs(batch)
        return self.head(
            tf.concat([tf.reshape(each, (self.case.batch_size, -1)) for each in outputs], axis=1)
        )


class RankModel:
    """The same model, on the part of the batch that is this rank's."""

    def __init__(self, case):
        self.case = case
        layers = [
            keras_sparse.layers.Embedding(
                rows,
                width,
                combiner,
                embeddings_initializer=keras.initializers.RandomUniform(seed=i),
            )
            for i, (rows, width, combiner) in enumerate(case.tables)
        ]
        self.embeddings = DistributedEmbedding(
            layers, input_table_map=[table for table, _ in case.inputs], **case.options
        )
        self.head = keras.layers.Dense(3, kernel_initializer=keras.initializers.HeNormal(seed=0))

    @property
    def trainable_variables(self):
        return [*self.embeddings.trainable_variables, *self.head.trainable_variables]

    def outputs(self, batch):
        inputs, weights = [], []
        for i in self.embeddings.own_inputs:
            _, kind = self.case.inputs[i]
            ids = batch[i]
            if self.embeddings.dp_input:
                ids = part_of(ids, ksd.rank(), ksd.size())
            inputs.append(as_input(kind, ids))
            weights.append(make_weights(kind, ids))
        return self.embeddings(inputs, weights)

    def __call__(self, batch):
        outputs = self.outputs(batch)
        flat = [tf.reshape(each, (tf.shape(each)[0], -1)) for each in outputs]
        return self.head(tf.concat(flat, axis=1))


def targets(num_samples, step):
    """What the head is to say: some numbers."""
    return np.sin(np.arange(num_samples * 3).reshape(num_samples, 3) + step).astype(np.float32)


def losses(outputs, wanted):
    return tf.reduce_sum((outputs - wanted) ** 2)


def check(case, optimizer, tolerance=2e-6):
    """Trains both models for some steps and compares outputs and all rows."""
    generator = np.random.default_rng(3)
    plain, ranked = PlainModel(case), RankModel(case)
    plain_optimizer = getattr(keras.optimizers, optimizer)(0.05)
    if any(rows is None for rows, _, _ in case.tables):
        plain_optimizer = getattr(keras_sparse.optimizers, optimizer)(0.05)
    ranked_optimizer = ksd.DistributedOptimizer(getattr(keras_sparse.optimizers, optimizer)(0.05))
    for step in range(STEPS):
        batch = [
            make_ids(kind, case.tables[t][0], case.batch_size, generator) for t, kind in case.inputs
        ]
        wanted = targets(case.batch_size, step)
        compare_outputs(plain, ranked, batch, tolerance)
        with tf.GradientTape() as tape:
            loss = losses(plain(batch), wanted) / case.batch_size
        variables = plain.trainable_variables
        grads = tape.gradient(loss, variables)
        # Dense: Keras squares the sparse gradients of equal ids before it adds them.
        grads = [dense(*pair) for pair in zip(grads, variables, strict=True)]
        plain_optimizer.apply(grads, variables)
        with tf.GradientTape() as tape:
            # The mean over the batch: averaged over ranks it is a rank's sum times their number.
            loss = losses(ranked(batch), part_of(wanted, ksd.rank(), ksd.size()))
            loss *= ksd.size() / case.batch_size
        variables = ranked.trainable_variables
        ranked_optimizer.apply(tape.gradient(loss, variables), variables)
    compare_outputs(plain, ranked, batch, tolerance)
    np.testing.assert_allclose(ranked.head.kernel, plain.head.kernel, atol=tolerance)
    return plain, ranked


def dense(grad, variable):
    """A gradient of one of Keras' variables in its dense form."""
    is_ours = isinstance(variable, keras_sparse.EmbeddingVariable)
    return grad if is_ours else tf.convert_to_tensor(grad)


def compare_outputs(plain, ranked, batch, tolerance):
    """Both models' embeddings of a batch."""
    for whole, part in zip(plain.outputs(batch), ranked.outputs(batch), strict=True):
        part = part.flat_values if isinstance(part, tf.RaggedTensor) else part
        np.testing.assert_allclose(part, part_of(whole, ksd.rank(), ksd.size()), atol=tolerance)
