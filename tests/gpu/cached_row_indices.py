"""What a step of tables in a GPU's memory waits for. Run by emulated_tables_test.py."""

import ctypes
import os
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse import native
from keras_sparse.native import library

NUM_BATCHES = 4


class Counts(ctypes.Structure):
    """The CPU's requests to the emulated GPU: `Counts` of `emulated_device.h`."""

    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            "launches",
            "copies_to_device",
            "copies_to_host",
            "fills",
            "waits",
            "waits_for_copies",
        )
    ]


HBM = keras_sparse.StorageOption("HBM")


class Case(NamedTuple):
    """A model whose steps wait for nothing once its rows are there."""

    combiner: str | None = None
    max_rows: int | None = None  # of the dynamic table
    optimizer: Callable = lambda: keras_sparse.optimizers.Adagrad(0.1)
    num_lookups: int = 1  # of each table in a step


def two_optimizers():
    each = {
        "static": keras_sparse.optimizers.SGD(0.1),
        "dynamic": keras_sparse.optimizers.Adagrad(0.1),
    }
    return keras_sparse.optimizers.MultiOptimizer(each | {"others": keras.optimizers.SGD(0.1)})


CASES = {
    "rows": Case(),
    "means": Case("mean"),
    "rows of two lookups": Case(num_lookups=2),
    "means of two lookups": Case("mean", num_lookups=2),
    "several optimizers": Case("sum", None, two_optimizers),
    "max_rows": Case("sum", 64),
    "max_rows and two lookups": Case("sum", 64, two_optimizers, 2),
}


def make_model(ids, case):
    keras.utils.set_random_seed(3)
    inputs = keras.Input(ids.shape[1:], dtype="int64")
    options = {"storage": HBM, "combiner": case.combiner}
    embed = [
        keras_sparse.layers.Embedding(64, 4, name="static", **options),
        keras_sparse.layers.Embedding(None, 4, name="dynamic", max_rows=case.max_rows, **options),
    ]
    rows = [
        keras.layers.Flatten()(each(keras.ops.flip(inputs, axis=1) if i else inputs))
        for each in embed
        for i in range(case.num_lookups)
    ]
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Concatenate()(rows)))
    model.compile(case.optimizer(), "mse")
    return model


@pytest.mark.skipif(
    "EMULATED_BUILD_INFO" not in os.environ, reason="the emulated GPU counts, no other does"
)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_step_waits_for_no_work_but_its_lookups(case):
    counts = ctypes.CDLL(library.library_path).keras_sparse_emulated_counts
    counts.restype = ctypes.POINTER(Counts)
    ids = np.arange(64).reshape(4 * NUM_BATCHES, 4)
    data = ids, np.ones(len(ids))
    model = make_model(ids, case)

    def waits_of(run):
        before = counts().contents.waits, counts().contents.waits_for_copies
        run(*data, batch_size=4, verbose=0)
        return counts().contents.waits - before[0], counts().contents.waits_for_copies - before[1]

    lookups = 2 * case.num_lookups * NUM_BATCHES
    assert waits_of(model.fit)[0] > 0  # its ids are new
    assert waits_of(model.evaluate) == (lookups, 0)
    assert waits_of(model.fit) == (0, lookups)


def test_an_id_out_of_range_is_refused_in_its_step():
    table = keras_sparse.EmbeddingVariable(8, 4, storage=HBM)
    other = keras_sparse.EmbeddingVariable(None, 4, storage=HBM)
    dense = keras.Variable(tf.zeros(1000), name="dense")
    optimizer = keras_sparse.optimizers.SGD(0.1)
    variables = [table, other, dense]
    optimizer.build(variables)
    before = table.find([0]).rows

    @tf.function
    def step(ids):
        with tf.GradientTape() as tape:
            rows, more = native.lookup([table, other], [ids, ids])
        gradients = tape.gradient([rows, more], [table.value, other.value])
        optimizer.apply([*gradients, tf.ones(1000)], variables)
        return tf.shape(rows)

    @tf.function
    def loss(ids):
        with tf.GradientTape():
            (rows,) = native.lookup([table], [ids])
        return tf.shape(rows)

    for call in (step, loss, *20 * [step]):
        dense.assign(tf.zeros(1000))
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"ids\[1\] = 8"):
            call(tf.constant([0, 8], tf.int64))
        assert other.stats()["rows"] == 0
        assert not dense.numpy().any()
        np.testing.assert_array_equal(table.find([0]).rows, before)
        assert call(tf.constant([1], tf.int64)).numpy().tolist() == [1, 4]
        other.erase([1])


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
