"""What a step of tables in a GPU's memory waits for. Run by emulated_tables_test.py."""

import ctypes
import os

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse import native
from keras_sparse.native import library

NUM_BATCHES = 4


class Counts(ctypes.Structure):
    """What the CPU has asked of the emulated GPU: `Counts` of `emulated_device.h`."""

    _fields_ = [
        (name, ctypes.c_int64)
        for name in ("launches", "copies_to_device", "copies_to_host", "fills", "waits")
    ]


def make_model(ids, combiner):
    keras.utils.set_random_seed(3)
    inputs = keras.Input(ids.shape[1:], dtype="int64")
    embed = [
        keras_sparse.layers.Embedding(
            input_dim, 4, combiner, storage=keras_sparse.StorageOption("HBM")
        )
        for input_dim in (64, None)
    ]
    rows = keras.layers.Concatenate()([keras.layers.Flatten()(each(inputs)) for each in embed])
    model = keras.Model(inputs, keras.layers.Dense(1)(rows))
    model.compile(keras_sparse.optimizers.Adagrad(0.1), "mse")
    return model


@pytest.mark.skipif(
    "EMULATED_BUILD_INFO" not in os.environ, reason="the emulated GPU counts copies, no other does"
)
@pytest.mark.parametrize("combiner", [None, "mean"])
def test_an_update_waits_for_nothing_that_the_lookup_of_its_step_has_found(combiner):
    counts = ctypes.CDLL(library.library_path).keras_sparse_emulated_counts
    counts.restype = ctypes.POINTER(Counts)
    ids = np.arange(64).reshape(4 * NUM_BATCHES, 4)
    data = ids, np.ones(len(ids))
    model = make_model(ids, combiner)

    def copies_of(run):
        before = counts().contents.copies_to_host
        run(*data, batch_size=4, verbose=0)
        return counts().contents.copies_to_host - before

    assert copies_of(model.fit) > 2 * NUM_BATCHES  # its ids are new
    assert copies_of(model.evaluate) == 2 * NUM_BATCHES  # a lookup of each table
    assert copies_of(model.fit) == 2 * NUM_BATCHES


def test_rows_are_kept_from_a_lookup_under_a_tape_to_its_update():
    table = keras_sparse.EmbeddingVariable(64, 4, storage=keras_sparse.StorageOption("HBM"))
    optimizer = keras_sparse.optimizers.SGD(0.1)
    optimizer.build([table])
    ids = tf.range(10, dtype=tf.int64)

    def bytes_kept():
        return table.stats()["tiers"]["HBM"]["bytes"] - before

    before = table.stats()["tiers"]["HBM"]["bytes"]
    native.lookup([table], [ids])
    assert bytes_kept() == 0
    with tf.GradientTape() as tape:
        rows = native.lookup([table], [ids])
    assert bytes_kept() == 4 * len(ids)
    optimizer.apply(tape.gradient(rows, [table.value]), [table])
    assert bytes_kept() == 0
