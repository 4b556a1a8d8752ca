"""Dynamic tables over ranks, with their options: what becomes of a key is up to the key alone."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from oracle import check
from oracle_cases import Case

INPUTS = [(0, "weighted"), (1, "dense")]
KEYS = np.random.default_rng(0).integers(-20, 20, (9, 4, 2))  # of 9 steps and 4 samples


def test_a_filter_counts_the_steps_of_a_key_once_over_all_ranks():
    options = {"admission": keras_sparse.CounterFilter(3)}
    case = Case([(None, 6, "mean"), (None, 8, "sum")], INPUTS, {}, dynamic_options=options)
    for training in check(case, optimizers=["Adagrad", "Adam"]):
        dropped = [table["filtered_ids"] for table in training.tables[0].layer.stats().values()]
        assert sum(map(sum, gather_objects(dropped, "dropped"))) > 0


def test_rows_on_an_ssd_are_those_in_memory(folder):
    # Memory for some of the rows. Each rank has a folder of its own.
    storage = keras_sparse.StorageOption("DRAM_SSDHASH", str(folder), [20_000])
    case = Case([(None, 512, "mean"), (None, 600, "sum")], INPUTS, {}, storage=storage)
    for training in check(case, optimizers=["Adagrad", "Adam"]):
        for table in training.tables[0].layer.stats().values():
            assert table["tiers"]["SSDHASH"]["rows"] > 0
    folders = {each.name for each in folder.iterdir()}
    ranks = {f"rank-{rank}-of-{ksd.size()}" for rank in range(ksd.size())}
    assert folders >= ranks if ksd.size() > 1 else not folders & ranks


def test_a_table_of_each_rank_has_a_folder_of_the_rank(folder):
    storage = keras_sparse.StorageOption("DRAM_SSDHASH", folder, [100_000])
    table = Embedding(None, 4, storage=storage)
    table.build()
    table.embeddings.import_([ksd.rank()], np.full((1, 4), ksd.rank()))
    gather_objects(None, "all are open")
    assert [keys.tolist() for keys, _ in table.embeddings.export()] == [[ksd.rank()]]
    ranks = {f"rank-{rank}-of-{ksd.size()}" for rank in range(ksd.size())}
    folders = {each.name for each in folder.iterdir()}
    assert folders >= ranks if ksd.size() > 1 else not folders & ranks


def start():
    return keras.initializers.RandomUniform(seed=2)


def train(lookup, layer, optimizer, keys):
    """A step for each batch of keys: some have no key for some of the ranks' parts."""
    for batch in keys:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(lookup(tf.constant(batch)) ** 2) / 4
        variables = layer.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)


@pytest.mark.parametrize(
    "policy",
    [keras_sparse.GlobalStepEvict(2), keras_sparse.L2WeightEvict(5e-4)],
    ids=lambda policy: type(policy).__name__,
)
def test_lets_go_of_the_rows_that_one_process_does_and_tells_of_them(policy):
    options = {"embeddings_initializer": start(), "eviction": policy, "name": "items"}
    plain = Embedding(None, 4, "sum", **options)
    train(plain, plain, keras_sparse.optimizers.SGD(0.1), KEYS)
    layer = DistributedEmbedding([Embedding(None, 4, "sum", **options)])
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.SGD(0.1 * ksd.size()))
    train(lambda ids: layer([ids])[0], layer, optimizer, KEYS[:, ksd.rank() :: ksd.size()])

    assert rows_of_ranks(layer) == plain.stats()["rows"]
    evicted = gather_objects(layer.evict(), "evicted")
    assert all(list(each) == ["items"] for each in evicted)
    num_evicted = plain.evict()
    assert 0 < num_evicted < plain.stats()["rows"] + num_evicted
    assert sum(each["items"] for each in evicted) == num_evicted
    assert layer.stats()["items"]["evicted_rows"] == evicted[ksd.rank()]["items"]
    assert rows_of_ranks(layer) == plain.stats()["rows"]
    keys = tf.range(-20, 20, dtype=tf.int64)[:, tf.newaxis]
    np.testing.assert_allclose(layer([keys])[0], plain(keys), atol=1e-6)


def rows_of_ranks(layer):
    return sum(gather_objects(layer.stats()["items"]["rows"], "rows"))


def test_tells_of_the_tables_that_a_rank_has_a_part_of():
    tables = {
        "copied": Embedding(3, 2),
        "by_rows": Embedding(30, 8),
        "by_columns": Embedding(10, 2),
        "dynamic": Embedding(None, 4),
    }
    layer = DistributedEmbedding(tables, row_slice_threshold=200, data_parallel_threshold=10)
    layer.build()
    of_ranks = gather_objects({name: s["rows"] for name, s in layer.stats().items()}, "stats")
    assert layer.evict() == {}  # none has a policy
    for rank, rows in enumerate(of_ranks):
        own = sorted(layer.plan.tables_of(rank))
        assert list(rows) == [layer.templates.names[table] for table in own]
        assert rows["copied"] == 3
        assert rows["by_rows"] == len(range(rank, 30, ksd.size()))
        assert rows.get("by_columns", 10) == 10
        assert rows["dynamic"] == 0


@pytest.mark.parametrize("method", ["stats", "evict"])
def test_needs_a_built_layer(method):
    layer = DistributedEmbedding([Embedding(None, 4)], name="mine")
    with pytest.raises(ValueError, match=f"`{method}` must be called on a built layer.* 'mine'"):
        getattr(layer, method)()
