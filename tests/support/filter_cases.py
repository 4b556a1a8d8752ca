"""One case for each class of admission filter, and models that use them."""

import collections
import dataclasses
from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse import CBFFilter
from keras_sparse import CounterFilter
from keras_sparse import EmbeddingVariable
from keras_sparse import ProbabilityFilter
from keras_sparse.ops import lookup


@dataclasses.dataclass
class FilterCase:
    """A filter that is in the middle of its work after some batches of `IDS`."""

    make: Callable

    def __str__(self):
        return type(self.make()).__name__


CASES = [
    FilterCase(lambda: CounterFilter(3)),
    FilterCase(lambda: ProbabilityFilter(0.3)),
    FilterCase(lambda: CBFFilter(3, 300, 0.1, "uint8")),
]
each_filter = pytest.mark.parametrize("case", CASES, ids=str)

# Few keys that are seen often and many that are not; negative ones too.
IDS = np.random.default_rng(0).zipf(1.4, (256, 3)) % 2000 - 500
TARGETS = np.random.default_rng(1).normal(size=(256, 1)).astype("float32")


def make_model(admission, optimizer="Adagrad", storage=None, combiner="mean", **kwargs):
    """A model of one filtered table. Models of the same arguments start the same."""
    inputs = keras.Input((3,), dtype="int64")
    layer = keras_sparse.layers.Embedding(
        None, 4, combiner, seed=3, admission=admission, storage=storage
    )
    outputs = keras.layers.Dense(1, kernel_initializer=keras.initializers.GlorotUniform(2))
    model = keras.Model(inputs, outputs(keras.layers.Flatten()(layer(inputs))))
    model.compile(getattr(keras_sparse.optimizers, optimizer)(0.05), loss="mse", **kwargs)
    return model


def table_of(model):
    return model.layers[1].embeddings


def fit(model, first, last):
    model.fit(
        IDS[first:last], TARGETS[first:last], batch_size=16, epochs=1, shuffle=False, verbose=0
    )


def remembered(variable):
    """Everything that a table's filter remembers, by key."""
    entries, cursors = {}, np.zeros(1, np.int64)
    while cursors[0] >= 0:
        keys, counts, cursors = keras_sparse.ops.export_filter([variable], cursors, 100)
        entries |= dict(zip(keys[0].numpy().tolist(), counts[0].numpy().tolist(), strict=True))
    return entries


def counted(ids, filter_freq):
    """What a filter of occurrences remembers of some ids, by key, and the keys that have rows."""
    counts = collections.Counter(np.ravel(ids).tolist())
    waiting = {key: count for key, count in counts.items() if count < filter_freq}
    return waiting, set(counts) - set(waiting)


def filtered(admission, output_dim=1, **kwargs):
    """A table with rows of ones, and the optimizer that takes gradients from them as they are."""
    variable = EmbeddingVariable(None, output_dim, "ones", admission=admission, **kwargs)
    optimizer = keras_sparse.optimizers.SGD(1.0)
    optimizer.build([variable])
    return variable, optimizer


def step(variable, optimizer, ids, gradient=0.25):
    """One training step, with this gradient for each occurrence of an id."""
    ids = tf.constant(ids, tf.int64)
    values = tf.fill((len(ids), variable.output_dim), gradient)
    optimizer.apply([tf.IndexedSlices(values, ids, (1, variable.output_dim))], [variable])


def read(variable, ids):
    return lookup([variable], [tf.constant(ids, tf.int64)])[0].numpy()[:, 0].tolist()
