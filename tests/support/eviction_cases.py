"""One case for each class of eviction policy, and tables and models that use them."""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse import EmbeddingVariable
from keras_sparse import GlobalStepEvict
from keras_sparse import L2WeightEvict


@dataclasses.dataclass
class PolicyCase:
    """A policy that lets some rows of `IDS` go and keeps others; all that are old and zero go."""

    make: Callable

    def __str__(self):
        return type(self.make()).__name__


CASES = [
    PolicyCase(lambda **kwargs: GlobalStepEvict(3, **kwargs)),
    PolicyCase(lambda **kwargs: L2WeightEvict(1.7e-3, **kwargs)),
]
each_policy = pytest.mark.parametrize("case", CASES, ids=str)

# Few keys that are seen often and many that are not; negative ones too.
IDS = np.random.default_rng(0).zipf(1.4, (256, 3)) % 2000 - 500
TARGETS = np.random.default_rng(1).normal(size=(256, 1)).astype("float32")


def make_model(eviction=None, optimizer="Adagrad", storage=None, steps_per_execution=1, **options):
    """A model of one table of these options. Models of the same arguments start the same."""
    inputs = keras.Input((3,), dtype="int64")
    options = {"combiner": "mean", "seed": 3, "name": "items", "storage": storage, **options}
    rows = keras_sparse.layers.Embedding(None, 4, eviction=eviction, **options)(inputs)
    kernel = keras.initializers.GlorotUniform(2)
    outputs = keras.layers.Dense(1, kernel_initializer=kernel)(keras.layers.Flatten()(rows))
    model = keras.Model(inputs, outputs)
    if isinstance(optimizer, str):
        optimizer = getattr(keras_sparse.optimizers, optimizer)(0.05)
    # A few steps take less time than to compile one.
    steps = {"steps_per_execution": steps_per_execution, "run_eagerly": steps_per_execution == 1}
    model.compile(optimizer, loss="mse", **steps)
    model.optimizer.build(model.trainable_variables)
    return model


def table_of(model):
    return model.get_layer("items").embeddings


def train(model, first, last):
    """The steps of `fit`, in half its time where they run eagerly."""
    for begin in range(first, last, 16):
        batch = slice(begin, min(begin + 16, last))
        model.train_on_batch(IDS[batch], TARGETS[batch])


def fit(model, first, last, **kwargs):
    model.fit(
        IDS[first:last], TARGETS[first:last], batch_size=16, shuffle=False, verbose=0, **kwargs
    )


def make_table(eviction=None, initializer="zeros", output_dim=1, **kwargs):
    """A table with rows of one float, and an optimizer that subtracts gradients."""
    variable = EmbeddingVariable(None, output_dim, initializer, eviction=eviction, **kwargs)
    optimizer = keras_sparse.optimizers.SGD(1.0)
    optimizer.build([variable])
    return variable, optimizer


def step(variable, optimizer, ids, gradient=1.0):
    """One training step, with this gradient for each occurrence of an id."""
    values = tf.fill((len(ids), variable.output_dim), gradient)
    ids = tf.constant(ids, tf.int64)
    optimizer.apply([tf.IndexedSlices(values, ids, (1, variable.output_dim))], [variable])


def ages_of(variable):
    """`{key: age}` of all rows."""
    return _by_key(variable.export(3, with_ages=True))


def frequencies_of(variable):
    """`{key: frequency}` of all rows."""
    return _by_key(variable.export(3, with_frequencies=True))


def _by_key(pieces):
    return {
        key: word
        for keys, _, words in pieces
        for key, word in zip(keys.tolist(), words.tolist(), strict=True)
    }
