"""What a model that is dropped gives back, whatever graph of it TensorFlow keeps."""

import copy
import gc
import itertools
import os
import pathlib
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse import native
from keras_sparse.data import prefetch_lookups
from stages import LIMIT
from stages import stage_threads
from stages import wait_for_stage_threads
from stages import wait_until
from table_twins import each_stack
from table_twins import small
from table_twins import STACKS

ROWS = 40_000
STATIC_MIB = 3 * 4 * 64 * ROWS >> 20  # with Adam's slots
IDS = np.arange(800, dtype=np.int64).reshape(-1, 4)
TARGETS = np.ones((200, 1), np.float32)


class KeepsItsGraph(keras.layers.Layer):
    """TensorFlow keeps the graphs that a custom gradient is in until the process ends."""

    def call(self, inputs):
        return tf.custom_gradient(lambda x: (tf.identity(x), lambda upstream: upstream))(inputs)


def make_model(storage):
    inputs = keras.Input((4,), dtype="int64")
    tables = [
        keras_sparse.layers.Embedding(ROWS, 64),
        keras_sparse.layers.Embedding(None, 64, storage=storage),
    ]
    rows = keras.layers.Concatenate()([table(inputs) for table in tables])
    outputs = keras.layers.Dense(1)(keras.layers.Flatten()(KeepsItsGraph()(rows)))
    model = keras.Model(inputs, outputs)
    model.compile(keras_sparse.optimizers.Adam(), "mse")
    return model


def fit(model):
    batches = tf.data.Dataset.from_tensor_slices((IDS, TARGETS)).batch(50)
    model.fit(prefetch_lookups(batches, model, 1, 2), shuffle=False, verbose=0)


def own_loop(model):
    model.optimizer.build(model.trainable_variables)

    @tf.function
    def step(ids, targets):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(ids, training=True) - targets) ** 2)
        variables = model.trainable_variables
        model.optimizer.apply(tape.gradient(loss, variables), variables)

    step(IDS, TARGETS)


def mebibytes():
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") >> 20


@pytest.mark.slow("long history")
def test_models_give_back_memory_files_and_descriptors(tmp_path):
    found = []
    of_others = stage_threads()  # what an earlier test has left may be there still
    for train, stack in itertools.product((fit, own_loop), STACKS or ["DRAM"]):
        train(make_model(small(tmp_path, stack)))
        gc.collect()
        wait_for_stage_threads(0, of_others)
        wait_until(lambda: not list(tmp_path.iterdir()), "the files of a model to go")
        found.append((len(os.listdir("/proc/self/fd")), mebibytes()))
    descriptors, memory = zip(*found, strict=True)
    # What TensorFlow and the first table of a kind make once is there after the first ones.
    num_kinds = len(found) // 2
    assert len(set(descriptors[num_kinds - 1 :])) == 1
    assert memory[-1] - memory[0] < 3 * STATIC_MIB


def concrete(layer):
    return tf.function(layer).get_concrete_function(tf.TensorSpec((None,), tf.int64))


def layer_of_ones(storage, keys):
    """Not in the test's own frame, whose variables AutoGraph looks at, and Python then keeps."""
    layer = keras_sparse.layers.Embedding(None, 64, storage=storage)
    lookup = concrete(layer)
    keras_sparse.optimizers.SGD().build([layer.embeddings])
    native.import_rows([layer.embeddings], [keys], [tf.ones((len(keys), 64))])
    return layer, lookup


@each_stack
def test_lookups_that_are_on_their_way_end_well_when_their_table_goes(storage_type, tmp_path):
    keys = tf.range(2000, dtype=tf.int64)
    layer, lookup = layer_of_ones(small(tmp_path, storage_type), keys)
    has_begun = threading.Barrier(3)
    ended = []

    def look_up():
        assert np.all(lookup(keys) == 1)
        has_begun.wait()
        try:
            while np.all(lookup(keys) == 1):
                pass
        except tf.errors.FailedPreconditionError as error:
            ended.append(str(error))

    threads = [threading.Thread(target=look_up, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    has_begun.wait()
    del layer
    gc.collect()
    for thread in threads:
        thread.join(LIMIT)
    assert len(ended) == 2
    assert all("/embeddings', whose last reference is gone" in e for e in ended)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "make_layer",
    [
        lambda: keras_sparse.layers.Embedding(5, 2),
        lambda: keras_sparse.layers.IntegerLookup(10),
    ],
    ids=["Embedding", "IntegerLookup"],
)
def test_a_function_that_outlives_its_layer_says_so(make_layer):
    function = concrete(make_layer())
    gc.collect()
    with pytest.raises(tf.errors.FailedPreconditionError, match="Keep a reference to the model or"):
        function(tf.constant([1, 2], tf.int64))


def test_a_copy_of_a_variable_keeps_the_table():
    table = keras_sparse.EmbeddingVariable(5, 2, initializer="ones")
    copies = copy.copy(table), copy.deepcopy(table)
    del table
    gc.collect()
    for each in copies:
        np.testing.assert_array_equal(each.numpy(), np.ones((5, 2)))
