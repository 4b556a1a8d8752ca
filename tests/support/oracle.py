"""One plain Keras process beside a training on all ranks: both see the same batches.

The plain model trains on the whole batches, and each rank compares its own results with it.
"""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.distribute.ranks.collectives import gather_objects
from oracle_cases import as_input
from oracle_cases import KEYS
from oracle_cases import make_weights
from oracle_cases import plain_rows
from oracle_cases import pool
from oracle_cases import spec_of
from oracle_cases import WEIGHTS_SPEC

STEPS = 3  # a row may rest in the second, and be moved for it in the third


class PlainTables:
    """Layers of Keras, or of the user, one a table; a dynamic table is one of ours."""

    def __init__(self, case):
        self.case = case
        self.inputs = range(len(case.inputs))
        self.layers = [self._make_layer(*each) for each in enumerate(case.tables)]

    def _make_layer(self, table, of_table):
        rows, width, _ = of_table
        ours = self.case.make_layer(table, None)  # what it gives is pooled here
        if rows is None:
            ours.build()
            return ours
        layer_class = self.case.layer_class or keras.layers.Embedding
        layer = layer_class(rows, width, name=f"plain_{table}")
        layer.build(None)
        layer.set_weights([ours(tf.range(rows))])
        return layer

    @property
    def trainable_variables(self):
        return [variable for layer in self.layers for variable in layer.trainable_variables]

    def part_of(self, values):
        return values

    def __call__(self, inputs, weights):
        outputs, weights = [], iter(weights)
        for (table, kind), each in zip(self.case.inputs, inputs, strict=True):
            rows, _, combiner = self.case.tables[table]
            of_ids = plain_rows(self.layers[table], rows, kind, each)
            weight = next(weights) if kind == "weighted" else None
            outputs.append(pool(of_ids, kind, each, weight, combiner))
        return outputs

    def rows(self):
        """All rows of all tables."""
        keys = tf.constant(KEYS)
        return [
            layer(keys) if case[0] is None else layer.get_weights()[0]
            for layer, case in zip(self.layers, self.case.tables, strict=True)
        ]


class RankTables:
    """The same tables, spread over ranks, and the part of a batch that is this rank's."""

    def __init__(self, case):
        self.case = case
        self.layer = case.spread(
            [self._make_layer(*each) for each in enumerate(case.tables)],
            input_table_map=[table for table, _ in case.inputs],
            **case.options,
        )
        self.layer.build()
        self.inputs = self.layer.own_inputs

    def _make_layer(self, table, of_table):
        rows, width, combiner = of_table
        start = self.case.initializer(table)
        if self.case.layer_class is not None:
            return self.case.layer_class(rows, width, embeddings_initializer=start)
        options = {"storage": self.case.storage} if rows is None else {}
        return self.case.make_layer(table, combiner, **options)

    @property
    def trainable_variables(self):
        return self.layer.trainable_variables

    def part_of(self, values):
        # Else it is the layer that gives each rank the vectors of its samples.
        return self.case.part_of(values) if self.layer.dp_input else values

    def __call__(self, inputs, weights):
        weights = iter(weights)
        kinds = [self.case.inputs[i][1] for i in self.inputs]
        return self.layer(inputs, [next(weights) if k == "weighted" else None for k in kinds])

    def rows(self):
        """All rows of all tables."""
        if all(rows is not None for rows, _, _ in self.case.tables):
            return self.layer.get_weights(all_ranks=True)
        first = [self.case.inputs.index(each) for each in self._first_inputs()]
        ids = [np.arange(rows) if rows else KEYS for rows, _, _ in self.case.tables]
        ids = [tf.constant(ids[table][:, np.newaxis]) for table, _ in self.case.inputs]
        outputs = self.layer(ids)
        return [tf.reshape(outputs[i], (outputs[i].shape[0], -1)) for i in first]

    def _first_inputs(self):
        """The first input of each table."""
        inputs = dict(reversed([(table, (table, kind)) for table, kind in self.case.inputs]))
        return [inputs[table] for table in range(len(self.case.tables))]


class Training:
    """A model of tables and a dense layer, and its training steps.

    Args:
        tables: List of `PlainTables` or of `RankTables`, one a case.
        optimizer: Optimizer.
        sample_share: Float. What each sample counts in the loss.
        in_function: Boolean. Whether a step is a `tf.function`.
    """

    def __init__(self, tables, optimizer, sample_share, in_function):
        self.tables = tables
        self.optimizer = optimizer
        self.sample_share = sample_share
        cases = [each.case for each in tables]
        self.widths = [case.width_of(i) for case in cases for i in range(len(case.inputs))]
        # Of ranks that train different numbers of plain models, Keras' own names would differ.
        start = keras.initializers.HeNormal(seed=0)
        self.head = keras.layers.Dense(3, kernel_initializer=start, name="head")
        self.head.build((None, sum(self.widths)))
        self.variables = [v for each in [*tables, self.head] for v in each.trainable_variables]
        optimizer.build(self.variables)
        if in_function:
            kinds = [[each.case.inputs[i][1] for i in each.inputs] for each in tables]
            inputs = [[spec_of(kind) for kind in each] for each in kinds]
            weights = [[WEIGHTS_SPEC for kind in each if kind == "weighted"] for each in kinds]
            signature = [inputs, weights, tf.TensorSpec((None, 3))]
            self.take_step = tf.function(self.take_step, signature, autograph=False)

    def step(self, batches, wanted):
        """Takes a step on the whole batch of each case, and returns what the tables gave."""
        inputs, weights = [], []
        for tables, batch in zip(self.tables, batches, strict=True):
            kinds = [tables.case.inputs[i][1] for i in tables.inputs]
            ids = [tables.part_of(batch[i]) for i in tables.inputs]
            inputs.append([as_input(*each) for each in zip(kinds, ids, strict=True)])
            pairs = zip(kinds, ids, strict=True)
            weights.append([make_weights(each) for kind, each in pairs if kind == "weighted"])
        return self.take_step(inputs, weights, tf.constant(wanted))

    def take_step(self, inputs, weights, wanted):
        with tf.GradientTape() as tape:
            outputs = []
            for tables, *given in zip(self.tables, inputs, weights, strict=True):
                outputs += map(pool_ragged, tables(*given))
            widths = zip(outputs, self.widths, strict=True)
            flat = [tf.reshape(each, (tf.shape(each)[0], width)) for each, width in widths]
            error = self.head(tf.concat(flat, axis=1)) - wanted
            loss = tf.reduce_sum(error**2) * self.sample_share
        grads = tape.gradient(loss, self.variables)
        grads = [dense(*each) for each in zip(grads, self.variables, strict=True)]
        self.optimizer.apply(grads, self.variables)
        return outputs

    def rows(self):
        """All rows of all tables."""
        return [np.asarray(rows) for tables in self.tables for rows in tables.rows()]


def pool_ragged(rows):
    """Rows that are without a combiner, as a dense layer takes them."""
    return tf.reduce_sum(rows, 1) if isinstance(rows, tf.RaggedTensor) else rows


def dense(grad, variable):
    """Keras would square the sparse gradients of equal ids before it adds them."""
    is_ours = isinstance(variable, keras_sparse.EmbeddingVariable)
    return grad if is_ours else tf.convert_to_tensor(grad)


def targets(num_samples, step):
    """What the head is to say: some numbers."""
    return np.sin(np.arange(num_samples * 3).reshape(num_samples, 3) + step).astype(np.float32)


def check(*cases, optimizers=("Adagrad",), num_steps=STEPS, in_function=True, tolerance=2e-6):
    """Trains both models for some steps, and compares what they give in each and all rows then.

    Args:
        cases: `Case`s of the same batch: a model has the layers of all of them.
        optimizers: List of strings, classes of optimizers: each trains models of its own.
        num_steps: Integer.
        in_function: Boolean. Whether the ranks' step is a `tf.function`.
        tolerance: Float. By how much numbers may differ.

    Returns:
        List of the ranks' `Training`, one an optimizer.
    """
    generator, first = np.random.default_rng(3), cases[0]
    wanted = [targets(first.batch_size, step) for step in range(num_steps)]
    batches = [[case.make_batch(generator) for case in cases] for _ in range(num_steps)]
    expected = train_plain_models(cases, optimizers, batches, wanted)
    trainings = []
    for optimizer in optimizers:
        plain = expected[optimizer]
        inner = make_optimizer(keras_sparse.optimizers, optimizer)
        # The mean over the batch: averaged over ranks it is a rank's sum times their number.
        ranked = Training(
            [RankTables(case) for case in cases],
            ksd.DistributedOptimizer(inner),
            ksd.size() / first.batch_size,
            in_function,
        )
        for batch, theirs, outputs in zip(batches, wanted, plain.outputs, strict=True):
            expected_part = [first.part_of(each) for each in outputs]
            assert_close(ranked.step(batch, first.part_of(theirs)), expected_part, tolerance)
        assert_close(ranked.rows(), plain.rows, tolerance)
        assert_close(ranked.head.weights, plain.head, tolerance)
        trainings.append(ranked)
    return trainings


def make_optimizer(module, name):
    # Adam takes gradients for their signs, but for its epsilon: rounding must not decide them.
    options = {"epsilon": 1e-4} if name == "Adam" else {}
    return getattr(module, name)(0.05, **options)


@dataclasses.dataclass
class Trained:
    """What a plain model gave in each step, and its rows and weights then: lists of arrays."""

    outputs: list
    rows: list
    head: list


_trained: dict = {}  # of each key of plain models and each optimizer


def plain_key(cases):
    """What plain models follow from: how ranks have the tables is no part of it."""
    return tuple(
        (
            *map(tuple, (case.tables, case.inputs, case.dynamic_options.items())),
            case.batch_size,
            case.layer_class,
        )
        for case in cases
    )


def train_plain_models(cases, optimizers, batches, wanted):
    """Returns the `Trained` of each optimizer. Each rank trains some, as all would do the same."""
    keys = {name: (plain_key(cases), len(batches), name) for name in optimizers}
    missing = [name for name in optimizers if keys[name] not in _trained]
    own = {
        name: train_plain_model(cases, name, batches, wanted)
        for name in missing[ksd.rank() :: ksd.size()]
    }
    for of_rank in gather_objects(own, "oracle") if missing else []:
        _trained.update({keys[name]: each for name, each in of_rank.items()})
    return {name: _trained[key] for name, key in keys.items()}


def train_plain_model(cases, optimizer, batches, wanted):
    has_dynamic = any(rows is None for case in cases for rows, _, _ in case.tables)
    module = keras_sparse.optimizers if has_dynamic else keras.optimizers
    plain = Training(
        [PlainTables(case) for case in cases],
        make_optimizer(module, optimizer),
        1 / cases[0].batch_size,
        in_function=len(batches) > STEPS,  # to trace it takes longer than a few steps
    )
    steps = zip(batches, wanted, strict=True)
    outputs = [list(map(np.asarray, plain.step(*each))) for each in steps]
    return Trained(outputs, plain.rows(), [each.numpy() for each in plain.head.weights])


def assert_close(ours, theirs, tolerance):
    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, atol=tolerance)
