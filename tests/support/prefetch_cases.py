"""Models with tables over tiers or in memory, and their data, for tests of `prefetch_lookups`."""

import keras
import numpy as np
import tensorflow as tf

import keras_sparse

ROWS = 3000
BATCH = 64
BATCHES = 12


def make_data(seed=0):
    """Batches of (ids of `a`, dense; of `b`, ragged), labels."""
    rng = np.random.default_rng(seed)
    samples = BATCH * BATCHES
    lengths = rng.integers(0, 6, samples)
    values = (rng.zipf(1.3, lengths.sum()) % ROWS - ROWS // 2).astype(np.int64)
    inputs = {
        "a": rng.integers(0, ROWS, (samples, 2)),
        "b": tf.RaggedTensor.from_row_lengths(values, lengths),
    }
    labels = rng.normal(size=(samples, 1)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(BATCH)


def make_model(storage=None, optimizer=None, **compile_with):
    """A functional model, with the same first weights each time.

    Args:
        storage: Function that makes a `StorageOption`, for each table one. `None` for memory alone.
        optimizer: Defaults to `None`, an Adagrad.
        compile_with: What `compile` is called with besides.
    """
    keras.utils.set_random_seed(3)
    tiers = [None if storage is None else storage() for _ in range(2)]
    of_a = keras_sparse.layers.Embedding(None, 16, seed=1, name="of_a", storage=tiers[0])
    of_b = keras_sparse.layers.Embedding(None, 8, "mean", seed=2, name="of_b", storage=tiers[1])
    inputs = {
        "a": keras.Input((2,), dtype="int64", name="a"),
        "b": keras.Input((None,), dtype="int64", ragged=True, name="b"),
    }
    rows = [keras.layers.Flatten()(of_a(inputs["a"])), of_b(inputs["b"])]
    outputs = keras.layers.Dense(1)(keras.layers.Concatenate()(rows))
    model = keras.Model(inputs, outputs)
    model.compile(optimizer or keras_sparse.optimizers.Adagrad(0.1), loss="mse", **compile_with)
    return model


def tables_of(model):
    """The tables of a model."""
    variables = model.variables
    return [each for each in variables if isinstance(each, keras_sparse.EmbeddingVariable)]


def contents(model):
    """All weights of a model and the records of its tables, by key."""
    found = []
    for variable in model.variables:
        if not isinstance(variable, keras_sparse.EmbeddingVariable):
            found.append(variable.numpy())
            continue
        keys, records = (np.concatenate(each) for each in zip(*variable.export(), strict=True))
        order = np.argsort(keys)
        found += [keys[order], records[order]]
    return found


def assert_same(model, other):
    for ours, theirs in zip(contents(model), contents(other), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def prefetch_stats(model):
    """What `stats()` says of lookups that were staged, added up over the tables of a model."""
    stats = [table.stats()["prefetch"] for table in tables_of(model)]
    most = ("staleness_max", "staleness_mean")
    return {name: (max if name in most else sum)(each[name] for each in stats) for name in stats[0]}
