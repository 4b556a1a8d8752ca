"""A training that is saved on some ranks and goes on on others: run on every rank.

`python saving_ranks.py FOLDER STEP...`: each step is a call of a function below with a name of the
checkpoint or file, `load=of3`. What a training that never stops has is in `expected.npz`.
"""

import itertools
import pathlib
import sys

import keras
import numpy as np
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
import ranked_training
from keras_sparse import saving
from keras_sparse.layers import All2AllDenseEmbedding
from keras_sparse.layers import All2AllSparseEmbedding
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding

BATCH = 12
KEYS = (np.arange(30) - 15) * (2**40 + 1)
SIZES = [(40, 6), (30, 4), (5, 2), (24, 7)]
NUM_DYNAMIC = 5
INDEXES = 48  # rows of a table without a hash table, on any number of ranks
PACKED = {"row_dtype": "bfloat16", "slot_dtype": "bfloat16"}
# With the place of the table that has it: at this size a filter takes no key for another.
CBF, CBF_TABLE = keras_sparse.CBFFilter(4, 1000, 1e-6, "uint8"), len(SIZES) + 2
# By number of ranks: each spreads the tables in another way, as does each model after another.
OPTIONS = {
    1: itertools.repeat({}),
    2: itertools.cycle(
        [
            {"row_slice_threshold": 110, "strategy": "memory_balanced"},
            {"column_slice_threshold": 60, "data_parallel_threshold": 10},
        ]
    ),
    3: itertools.repeat(
        {"row_slice_threshold": 200, "column_slice_threshold": 50, "data_parallel_threshold": 10}
    ),
}


def make_model(folder, seed=0, steps=None):
    """A model of all kinds of tables, of which one lies beyond memory."""
    layers = [
        Embedding(rows, width, embeddings_initializer=keras.initializers.RandomNormal(seed=i))
        for i, (rows, width) in enumerate(SIZES)
    ]
    admission = keras_sparse.CounterFilter(2)
    eviction = keras_sparse.GlobalStepEvict(100)
    layers.append(Embedding(None, 3, "sum", seed=seed + 1, admission=admission))
    layers.append(Embedding(None, 4, "mean", seed=seed + 2, eviction=eviction))
    layers.append(Embedding(None, 2, "sum", seed=seed + 3, admission=CBF))
    admission = keras_sparse.ProbabilityFilter(0.3)
    layers.append(Embedding(None, 2, "sum", seed=seed + 4, admission=admission))
    storage = keras_sparse.StorageOption("DRAM_SSDHASH", folder / "tiers", [700, 1 << 20])
    layers.append(Embedding(None, 4, "sum", seed=seed + 5, storage=storage))
    inputs = [keras.Input((3,), dtype="int64", name=f"ids_{i}") for i in range(len(layers))]
    spread = DistributedEmbedding(layers, **next(OPTIONS[ksd.size()]))
    rows = spread(inputs)
    keys = [keras.layers.Reshape((1, 3))(inputs[i]) for i in (0, len(SIZES))]
    indexed = All2AllDenseEmbedding(INDEXES // ksd.size(), 3, 1, 3, use_hashtable=False, seed=seed)
    rows += [indexed(keys[0]), All2AllSparseEmbedding("mean", 50, 5, 1, seed=seed)(keys[1])]
    rows = [keras.layers.Flatten()(each) for each in rows]
    kernel = keras.initializers.GlorotNormal(seed=5)
    outputs = keras.layers.Dense(1, kernel_initializer=kernel)(keras.layers.Concatenate()(rows))
    model = keras.Model(inputs, outputs)
    inner = keras_sparse.optimizers.Adam(0.02, gradient_accumulation_steps=steps)
    optimizer = ksd.DistributedOptimizer(inner)
    model.compile(optimizer, loss="mse", run_eagerly=True)
    optimizer.build(model.trainable_variables)
    return model


def batch(step):
    """The ids of each table and the targets, of all ranks."""
    random = np.random.default_rng(step)
    # In each step some rows get no gradient, which Adam moves all the same.
    ids = [random.integers(0, rows // 2 + step % 3, (BATCH, 3)) for rows, _ in SIZES]
    ids += [random.choice(KEYS, (BATCH, 3)) for _ in range(NUM_DYNAMIC)]
    return ids, random.normal(size=(BATCH, 1))


def train(model, first, end):
    """Takes the steps with these numbers: each rank its part of the same batch."""
    for step in range(first, end):
        ids, targets = batch(step)
        mine = [tf.constant(each[ksd.rank() :: ksd.size()]) for each in ids]
        model.train_on_batch(mine, targets[ksd.rank() :: ksd.size()])


def layer_of(model, kind):
    return next(layer for layer in model.layers if type(layer) is kind)


def spread_of(model):
    return layer_of(model, DistributedEmbedding)


def values(model):
    """All rows, as every rank can read them, and all that is no table."""
    ids = [np.arange(rows)[:, np.newaxis] for rows, _ in SIZES]
    ids += [KEYS[:, np.newaxis]] * NUM_DYNAMIC
    rows = spread_of(model)([tf.constant(each, tf.int64) for each in ids])
    indexes = np.reshape(np.arange(INDEXES), (-1, 1, 3))
    rows.append(layer_of(model, All2AllDenseEmbedding)(indexes))
    rows.append(layer_of(model, All2AllSparseEmbedding)(KEYS[:, np.newaxis, np.newaxis]))
    dense = [each.numpy() for each in model.layers[-1].weights]
    return [*(np.reshape(each, (len(each), -1)) for each in rows), *dense]


def check(model, expected, tolerance):
    step, of_model = int(expected["step"]), values(model)
    assert int(model.optimizer.iterations) == step
    for i, each in enumerate(of_model):
        np.testing.assert_allclose(each, expected[str(i)], rtol=tolerance, atol=tolerance)
    # A counter is the number of steps that its key was in, wherever these were made.
    counts = sum(np.isin(KEYS, batch(each)[0][CBF_TABLE]).astype(int) for each in range(step))
    is_admitted = counts >= CBF.filter_freq
    assert 0 < is_admitted.sum() < len(KEYS)
    np.testing.assert_array_equal(of_model[CBF_TABLE].any(axis=1), is_admitted)


def check_tiers(model):
    """Some rows of the last table lie on disk, on every rank."""
    table = list(spread_of(model).own_tables.by_table.values())[-1]
    assert table.stats()["tiers"]["SSDHASH"]["rows"] > 0


class Expected:
    """What a training that never stops has after 4 steps, 6 and 9, written by `begin`."""

    def __init__(self, folder):
        self._folder = folder

    def write(self, model, step):
        arrays = {str(i): each for i, each in enumerate(values(model))}
        if ksd.rank() == 0:
            np.savez(self._folder / f"expected-{step}.npz", step=step, **arrays)

    def check(self, model, step, tolerance=1e-5):
        check(model, np.load(self._folder / f"expected-{step}.npz"), tolerance)


def begin(folder, name):
    """Saves a training in its middle, goes on, and does the same from what was saved."""
    model, expected = make_model(folder), Expected(folder)
    train(model, 0, 4)
    check_tiers(model)
    expected.write(model, 4)
    saving.save_checkpoint(model, folder / name, {"epoch": 3}, verbose=False)
    save_keras(model, folder, name)
    train(model, 4, 6)
    expected.write(model, 6)
    saving.save_delta(model, folder / f"{name}-delta", verbose=False)
    train(model, 6, 9)
    expected.write(model, 9)
    for loaded, step in ((name, 4), (f"{name}-delta", 6)):
        other = make_model(folder, seed=9)
        saving.load_checkpoint(other, folder / loaded, verbose=False)
        expected.check(other, step, 0)
        train(other, step, 9)
        expected.check(other, 9, 0)


def never_stop(folder):
    """Takes all steps on the ranks there are."""
    model = make_model(folder)
    train(model, 0, 9)
    Expected(folder).check(model, 9)


def load(folder, name, save_as=None):
    """Goes on from a checkpoint of other ranks, and saves it as it was."""
    expected = Expected(folder)
    step = 6 if name.endswith("delta") else 4
    model = make_model(folder, seed=9)
    info = saving.load_checkpoint(model, folder / name, verbose=False)
    assert info.step == step
    expected.check(model, step)
    check_tiers(model)
    if save_as is not None:
        saving.save_checkpoint(model, folder / save_as, verbose=False)
        save_keras(model, folder, save_as)
    train(model, step, 9)
    expected.check(model, 9)


def save_keras(model, folder, name):
    model.save(folder / f"{name}.keras")
    model.save_weights(folder / f"{name}.weights.h5")


def load_keras(folder, name):
    """Goes on from Keras' files, of any number of ranks."""
    expected = Expected(folder)
    model = make_model(folder, seed=9)
    model.load_weights(folder / f"{name}.weights.h5")
    expected.check(model, 4)
    train(model, 4, 9)
    expected.check(model, 9)
    model = keras.models.load_model(folder / f"{name}.keras")
    expected.check(model, 4)


def accumulate(folder, name):
    """Saves the first of three steps of an update, and goes on to its end."""
    model = make_model(folder, steps=3)
    train(model, 0, 4)
    saving.save_checkpoint(model, folder / name, verbose=False)
    train(model, 4, 6)
    of_model = values(model)
    if ksd.rank() == 0:
        np.savez(folder / f"{name}.npz", *of_model)


def load_accumulated(folder, name):
    """Goes on to the end of that update."""
    model = make_model(folder, seed=9, steps=3)
    saving.load_checkpoint(model, folder / name, verbose=False)
    train(model, 4, 6)
    for ours, expected in zip(values(model), np.load(folder / f"{name}.npz").values(), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)


def pack(folder, name):
    """Saves rows in fewer bits in the middle of a training."""
    spread = packed()
    spread.train(0, 3)
    saving.save_checkpoint(spread.model, folder / name, verbose=False)


def load_packed(folder, name):
    """Goes on from that checkpoint with the bits of one rank."""
    spread = packed()
    saving.load_checkpoint(spread.model, folder / name, verbose=False)
    spread.train(3, 6)
    expected, _ = ranked_training.packed_on_one_rank("Adam", PACKED, 6)
    for ours, each in zip(spread.rows(), expected, strict=True):
        np.testing.assert_array_equal(ours, each)


def packed():
    return ranked_training.PackedOnRanks("Adam", PACKED, row_slice_threshold=150)


STEPS = {"begin": begin, "never_stop": never_stop, "load": load, "keras": load_keras}
STEPS |= {"accumulate": accumulate, "load_accumulated": load_accumulated}
STEPS |= {"pack": pack, "load_packed": load_packed}


def run(folder, steps):
    for step in steps:
        name, *arguments = step.split("=")
        STEPS[name](pathlib.Path(folder), *arguments)
        if ksd.rank() == 0:
            print("done", step)


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2:])
