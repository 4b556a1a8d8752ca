"""Tables that ranks share, in memory and in the memory of GPUs. Run by emulated_ranks_test.py."""

import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
import keras_sparse.distribute as ksd
import prefetch_on_ranks
import saving_ranks
from keras_sparse import StorageOption
from keras_sparse.distribute.ranks import collectives
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.layers import GroupEmbedding
from keras_sparse.native import library

TABLES = [(40, 6, "sum"), (None, 5, "mean"), (30, 4, None), (9, 8, "sqrtn")]
INPUTS = [0, 1, 2, 3, 1]  # the second table is that of two inputs
STEPS = 4


def batches(num_inputs, num_samples):
    random = np.random.default_rng(ksd.rank())
    for _ in range(STEPS):
        yield [tf.constant(random.integers(0, 9, (num_samples, 3))) for _ in range(num_inputs)]


def layers_of(types):
    return [
        Embedding(*table, seed=i, storage=StorageOption(storage))
        for i, (table, storage) in enumerate(zip(TABLES, types, strict=True))
    ]


def samples_of_each_rank(**places):
    """A layer whose ranks have samples of their own, and batches for it, by storage types."""

    def make(types):
        layer = DistributedEmbedding(layers_of(types), input_table_map=INPUTS, **places)
        return layer, batches(len(INPUTS), 4 + ksd.rank())

    return make


def whole_batches(types):
    """The same whose ranks have all samples of the tables that they have columns of."""
    layers = [
        Embedding(9, 6, "sum", seed=i, storage=StorageOption(storage))
        for i, storage in enumerate(types)
    ]
    layer = DistributedEmbedding(layers, dp_input=False, column_slice_threshold=50)
    return layer, batches(len(layer.own_inputs), 8)


def tables_of_each_rank(types):
    """Tables that ranks have whole, outside of what spreads them."""
    return GroupEmbedding(layers_of(types)), batches(len(TABLES), 4 + ksd.rank())


def train(layer, optimizer, data):
    """Takes a step a batch and returns all that the layer gave."""
    optimizer = ksd.DistributedOptimizer(getattr(keras_sparse.optimizers, optimizer)(0.1))
    optimizer.build(layer.trainable_variables)

    @tf.function
    def step(inputs):
        with tf.GradientTape() as tape:
            rows = layer(inputs)
            loss = tf.add_n([tf.reduce_sum(each**2) for each in rows])
        variables = layer.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)
        return rows

    return [each.numpy() for inputs in data for each in step(inputs)]


def trained(make, types, optimizer):
    """What a layer gave in some steps, and its own tables after them."""
    layer, data = make(types)
    layer.build()
    outputs = train(layer, optimizer, data)
    tables = layer.trainable_variables
    return outputs, [checks.table_content(each) for each in tables], tables


ALL = ("HBM",) * 4
SOME = ("HBM", "HBM", "DRAM", "DRAM")
CASES = {
    "tables": (samples_of_each_rank(), SOME, "Adagrad"),
    "rows": (samples_of_each_rank(row_slice_threshold=1), ALL, "Adam"),
    "columns": (samples_of_each_rank(column_slice_threshold=30), ALL, "Ftrl"),
    "group": (tables_of_each_rank, SOME, "Adam"),
    "copies": (samples_of_each_rank(data_parallel_threshold=10**6), ALL, "SGD"),
    "halves": (samples_of_each_rank(wire_dtype="float16"), ALL, "LazyAdam"),
    "whole batches": (whole_batches, ALL, "Adagrad"),
}


@pytest.mark.parametrize("name", CASES)
def test_tables_in_gpu_memory_have_the_bits_of_those_in_memory(name):
    make, types, optimizer = CASES[name]
    expected, content, _ = trained(make, ("DRAM",) * 4, optimizer)
    outputs, ours, tables = trained(make, types, optimizer)
    assert ours == content
    for each, other in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(each, other)
    for table in tables:
        tier, device = ("HBM", "GPU:0") if table.is_on_gpu else ("DRAM", "CPU:0")
        assert list(table.stats()["tiers"]) == [tier]
        assert table.native.device.endswith(device)
    assert any(table.is_on_gpu for table in tables)


def test_ids_are_sent_from_the_cpu_whatever_the_device_around_them():
    before = tf.config.get_soft_device_placement()
    tf.config.set_soft_device_placement(False)
    try:
        contents = [content_after_a_step(*each) for each in ((("DRAM",) * 4, "CPU"), (ALL, "GPU"))]
    finally:
        tf.config.set_soft_device_placement(before)
    assert contents[0] == contents[1]


def content_after_a_step(types, device):
    layer, data = samples_of_each_rank()(types)
    layer.build()
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.SGD(0.1))
    optimizer.build(layer.trainable_variables)
    with tf.device(device), tf.GradientTape() as tape:
        rows = layer(next(data))
    ones = [tf.ones(each.shape) for each in rows]  # on the CPU, as the GPU makes none
    with tf.device(device):
        grads = tape.gradient(rows, layer.trainable_variables, ones)
    optimizer.apply(grads, layer.trainable_variables)
    return [checks.table_content(each) for each in layer.trainable_variables]


def ops_of_a_step(types):
    """The ops of a step's graph, and of each whether it is to be on a GPU."""
    layer, data = samples_of_each_rank()(types)
    layer.build()

    @tf.function
    def step(inputs):
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(each) for each in layer(inputs)])
        return tape.gradient(loss, layer.trainable_variables)

    graph = step.get_concrete_function(next(data)).graph
    return [(op, "GPU" in op.device) for op in graph.get_operations()]


@pytest.mark.parametrize(("types", "are_on_gpus"), [(ALL, True), (SOME, False)])
def test_rows_and_gradients_are_made_on_gpus_where_all_tables_are_there(types, are_on_gpus):
    names = ("ServeRows", "CombineRows", "ReturnGradients", "GatherGradients")
    made = {f"KerasSparse{name}": are_on_gpus for name in names}
    assert {op.type: on_gpu for op, on_gpu in ops_of_a_step(types) if op.type in made} == made


def test_a_gradient_of_weights_has_the_bits_of_tables_in_memory():
    grads = []
    for storage in ("DRAM", "HBM"):
        table = Embedding(9, 6, "mean", seed=1, storage=StorageOption(storage))
        layer = DistributedEmbedding([table], column_slice_threshold=30)
        weights = tf.constant([[1.5, -2, 0.25], [1, 0.5, 3]])
        with tf.GradientTape() as tape:
            tape.watch(weights)
            (rows,) = layer([tf.constant([[3, 1, 3], [8, 0, 1]])], [weights])
        grads.append(tape.gradient(rows, weights, tf.ones(rows.shape)).numpy().tolist())
    assert grads[0] == grads[1]


def test_a_horovod_with_nccl_is_given_rows_and_gradients_on_their_gpus(monkeypatch):
    monkeypatch.setattr(collectives, "sends_from_gpus", lambda: True)
    ops = ops_of_a_step(ALL)  # which run with NCCL alone
    sent = [(op.inputs[0].dtype.name, on_gpu) for op, on_gpu in ops if op.type == "HorovodAlltoall"]
    assert sorted(sent) == [("float32", True), ("float32", True), ("int32", False)]
    waits = [on_gpu for op, on_gpu in ops if op.type.endswith("Wait")]
    assert sorted(waits) == [False] * 2 + [True] * 4


def test_gradients_on_a_gpu_stay_there_until_horovod_has_them():
    with tf.device("GPU:0"):
        on_gpu = tf.identity(tf.constant([1.5, 2]))  # a copy, which the emulated GPU makes too
        (begun,) = library.lib.keras_sparse_begin_wait(tensors=[on_gpu], call="test")
        (ended,) = library.lib.keras_sparse_end_wait(tensors=[begun], call="test")
    assert [each.backing_device[-5:] for each in (begun, ended)] == ["GPU:0"] * 2
    np.testing.assert_array_equal(ended, [1.5, 2])


def test_what_is_below_the_gpu_is_served_too(tmp_path):
    contents = []
    for storage in ("DRAM", "HBM_DRAM_SSDHASH"):
        sizes = ["20kB", "20kB", "1MB"] if "HBM" in storage else None
        option = StorageOption(storage, tmp_path / "rows", sizes)
        policy = keras_sparse.GlobalStepEvict(2)
        layer = DistributedEmbedding([Embedding(None, 16, seed=1, storage=option, eviction=policy)])
        layer.build()
        random = np.random.default_rng(ksd.rank())
        data = ([tf.constant(random.integers(-800, 800, (400,)))] for _ in range(STEPS))
        outputs = train(layer, "Adam", data)
        (table,) = layer.trainable_variables
        contents.append([checks.table_content(table, 500), *(each.tolist() for each in outputs)])
        (stats,) = layer.stats().values()
        assert all(tier["rows"] > 0 for tier in stats["tiers"].values())
        (evicted,) = layer.evict().values()
        contents[-1] += [evicted, checks.table_content(table, 500)]
    assert list(stats["tiers"]) == ["HBM", "DRAM", "SSDHASH"]
    assert evicted > 0
    assert contents[0] == contents[1]


def test_goes_on_from_what_one_process_has_saved_and_is_saved_for_it():
    saving_ranks.run(pathlib.Path(os.environ["SAVED"]), ["load=of1=of2"])


def test_lookups_ahead_of_their_steps_change_nothing():
    histories = []
    for storage in ("DRAM", "HBM"):
        model = prefetch_on_ranks.make_model(StorageOption(storage))
        data = prefetch_on_ranks.make_data()
        data = keras_sparse.data.prefetch_lookups(data, model) if storage == "HBM" else data
        histories.append(model.fit(data, epochs=2, shuffle=False, verbose=0).history["loss"])
        histories.append([each.tolist() for each in prefetch_on_ranks.state_of(model)])
    assert histories[:2] == histories[2:]


def test_a_rank_without_a_gpu_is_an_error_of_all(monkeypatch):
    if ksd.rank() == 1:
        monkeypatch.setattr("tensorflow.config.get_visible_devices", lambda kind: [])
    layer = DistributedEmbedding([Embedding(9, 4, storage=StorageOption("HBM"))])
    words = (
        rf"\[rank {ksd.rank()} of {ksd.size()}\] Tables in GPU memory need a GPU .*"
        "storage_type='HBM' where TensorFlow sees no GPU on rank 1"
    )
    with pytest.raises(NotImplementedError, match=words):
        layer.build()


def test_ranks_that_share_a_gpu_take_memory_as_they_need_it():
    (gpu,) = tf.config.get_visible_devices("GPU")
    assert tf.config.experimental.get_memory_growth(gpu)
