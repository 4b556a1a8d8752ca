"""What eviction lets go of can be had: each row once, as it was, and none that stays."""

import numpy as np
import tensorflow as tf

import keras_sparse
from keras_sparse import EmbeddingVariable
from keras_sparse import GlobalStepEvict
from keras_sparse import L2WeightEvict
from keras_sparse import StorageOption
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from pairwise import each_pair


def rows_of(variable):
    return as_dict((keys, records) for keys, records in variable.export())


def as_dict(pieces):
    found = {}
    for keys, records in pieces:
        for key, record in zip(keys.tolist(), records, strict=True):
            assert key not in found
            found[key] = record.tobytes()
    return found


def train(variable, optimizer, seed, num_keys, num_steps=12):
    rng = np.random.default_rng(seed)
    for _ in range(num_steps):
        ids = tf.constant(rng.integers(-num_keys, num_keys, 40))
        grads = tf.constant(rng.normal(size=(40, 4)), tf.float32)
        optimizer.apply([tf.IndexedSlices(grads, ids, (1, 4))], [variable])


@each_pair(
    eviction=[GlobalStepEvict(5), L2WeightEvict(1e-3)],
    optimizer=["SGD", "Adagrad", "Adam"],
    in_lower_tiers=[False, True],
)
def test_the_rows_that_go_and_those_that_stay_are_all_there_were(
    eviction, optimizer, in_lower_tiers, tmp_path
):
    storage = StorageOption("DRAM_SSDHASH", str(tmp_path), (2048, 1 << 20))
    variable = EmbeddingVariable(
        None, 4, seed=1, eviction=eviction, storage=storage if in_lower_tiers else None
    )
    optimizer = getattr(keras_sparse.optimizers, optimizer)(0.02)
    optimizer.build([variable])
    for seed in range(3):
        train(variable, optimizer, seed, 300)
        before = rows_of(variable)
        keys, records = variable.evict(with_rows=True)
        gone, left = as_dict([(keys, records)]), rows_of(variable)
        assert 0 < len(gone) < len(before)
        assert not gone.keys() & left.keys()
        assert gone | left == before
        assert variable.num_rows == len(left)


def test_no_row_is_no_error():
    variable = EmbeddingVariable(None, 4, eviction=GlobalStepEvict(5))
    keys, records = variable.evict(with_rows=True)
    assert (keys.shape, keys.dtype, records.shape) == ((0,), np.int64, (0, 4))


def test_rows_that_went_can_be_put_back():
    variable = EmbeddingVariable(None, 4, seed=1, eviction=L2WeightEvict(1e-3))
    optimizer = keras_sparse.optimizers.Adam(0.02)
    optimizer.build([variable])
    train(variable, optimizer, 0, 30)
    before = rows_of(variable)
    variable.import_(*variable.evict(with_rows=True))
    assert rows_of(variable) == before


def test_layers_give_them_too():
    layer = Embedding(None, 2, eviction=L2WeightEvict(1.0), name="items")
    layer(tf.constant([1]))
    layer.embeddings.import_([1, -2, 3], [[9, 9], [0.5, 0.25], [1, 1]])
    keys, records = layer.evict(with_rows=True)
    assert (keys.tolist(), records.tolist()) == ([-2], [[0.5, 0.25]])

    layer = DistributedEmbedding([Embedding(None, 2, "sum", eviction=L2WeightEvict(1.0), name="a")])
    layer([tf.constant([[1]])])
    layer.own_tables.by_table[0].import_([1, -2], [[9, 9], [0.5, 0.25]])
    keys, records = layer.evict(with_rows=True)["a"]
    assert (keys.tolist(), records.tolist()) == ([-2], [[0.5, 0.25]])
    assert layer.evict() == {"a": 0}
