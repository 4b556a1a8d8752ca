"""`copy.deepcopy` of a table, as of any variable, is a second table with the same rows."""

import copy

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse import EmbeddingVariable
from keras_sparse.layers import Embedding
from keras_sparse.tables import available_memory
from keras_sparse.tables.table_part import TablePart
from layer_cases import LAYERS

IDS = np.array([3, 5, 1, 3])
NEW = np.array([7, 0])


def count_up(shape, dtype):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


PART = TablePart("whole", 24, 4, 1, 2, shard=2, num_shards=3)
TABLES = {
    "static": lambda: EmbeddingVariable(8, 2, "normal"),
    "own_initializer": lambda: EmbeddingVariable(8, 2, count_up),
    "fewer_bits": lambda: EmbeddingVariable(
        None, 2, "normal", row_dtype="bfloat16", slot_dtype="bfloat16"
    ),
    "frozen": lambda: EmbeddingVariable(8, 2, trainable=False, out_of_range="zero"),
    "part": lambda: EmbeddingVariable(8, 2, part=PART),
    "dynamic": lambda: EmbeddingVariable(None, 2, "normal", max_rows=9),
    "counter_filter": lambda: EmbeddingVariable(None, 2, admission=keras_sparse.CounterFilter(2)),
    "cbf_filter": lambda: EmbeddingVariable(
        None, 2, admission=keras_sparse.CBFFilter(2, max_element_size=100)
    ),
    "ages": lambda: EmbeddingVariable(None, 2, eviction=keras_sparse.GlobalStepEvict(2)),
}


def train(table, ids):
    if not table.trainable:
        table.import_(ids, read(table, ids) + 1.0)
        return
    if not hasattr(table, "optimizer"):
        table.optimizer = keras_sparse.optimizers.Adam(0.5)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(read(table, ids))
    table.optimizer.apply([tape.gradient(loss, table.value)], [table])


def read(table, ids):
    """The rows of ids; of a part, of as many ids that it owns."""
    ids = np.asarray(ids) if table.part is None else table.part.global_ids(np.asarray(ids))
    return keras_sparse.ops.lookup([table], [tf.constant(ids, tf.int64)])[0]


def rows_of(table):
    """Rows, without slots, and ages, by key."""
    return {
        int(key): (record[:2].tobytes(), ages is not None and int(ages[i]))
        for keys, records, ages in table.export(with_ages=True)
        for i, (key, record) in enumerate(zip(keys, records, strict=True))
    }


@pytest.mark.parametrize("name", TABLES)
def test_a_copy_keeps_the_rows_that_the_table_had(name):
    with keras.name_scope("towers"), keras.name_scope("user"):
        table = TABLES[name]()
    for ids in (IDS, IDS, NEW):
        train(table, ids)
    before, initial = rows_of(table), np.asarray(read(table, [6]))
    (kept,) = copy.deepcopy([table])
    assert (kept.path, kept.trainable, kept.shape) == (
        "towers/user/embeddings",
        table.trainable,
        table.shape,
    )
    assert rows_of(kept) == before
    np.testing.assert_array_equal(read(kept, [6]), initial)
    assert not kept.slot_names
    train(table, IDS)
    assert rows_of(table) != before
    assert rows_of(kept) == before
    after = rows_of(table)
    kept.import_(IDS[:1], np.full((1, 2), 9.0))
    assert rows_of(table) == after


@pytest.mark.parametrize("name", ["counter_filter", "cbf_filter"])
def test_a_copy_remembers_the_keys_that_wait(name):
    table = TABLES[name]()
    train(table, IDS)
    kept = copy.deepcopy(table)
    assert rows_of(kept).keys() == rows_of(table).keys()
    for each in (table, kept):
        train(each, [5])
        assert 5 in rows_of(each)
        assert 1 not in rows_of(each)


def test_a_cleared_copy_begins_as_the_table_did():
    table = TABLES["own_initializer"]()
    train(table, IDS)
    kept = copy.deepcopy(table)
    kept.clear()
    np.testing.assert_array_equal(kept.numpy(), count_up((8, 2), "float32"))


def test_the_best_weights_of_a_model_can_be_kept():
    ids = keras.Input((), dtype="int64")
    model = keras.Model(ids, keras.layers.Dense(1)(Embedding(8, 2)(ids)))
    model.compile(keras_sparse.optimizers.SGD(0.5), "mse", run_eagerly=True)
    best, expected = copy.deepcopy(model.weights), model.get_weights()
    model.fit(IDS, np.ones((4, 1)), verbose=0)
    for kept, array in zip(best, expected, strict=True):
        np.testing.assert_array_equal(kept.numpy(), array)
    for variable, kept in zip(model.weights, best, strict=True):
        assert not np.array_equal(variable.numpy(), kept.numpy())
        variable.assign(kept)
        np.testing.assert_array_equal(variable.numpy(), kept.numpy())


@pytest.mark.parametrize("case", [each for each in LAYERS if each != "own_lookup"])
@pytest.mark.parametrize("is_built", [True, False])
def test_a_copy_of_a_layer_has_tables_of_its_own(case, is_built):
    make, before, after = LAYERS[case]
    layer = make()
    ids = before(tf.constant(IDS[None, :3]))
    if is_built:
        layer(ids, training=True) if case == "integer_lookup" else layer(ids)
    kept = copy.deepcopy(layer)
    if is_built:
        np.testing.assert_array_equal(after(kept(ids)), after(layer(ids)))
    layer(ids)
    mine, theirs = layer.trainable_variables, kept.trainable_variables
    assert not {id(each.native) for each in mine} & {id(each.native) for each in theirs}
    for each in mine:
        each.import_([3], np.full((1, each.output_dim), 9.0))
    if case != "integer_lookup":
        assert not np.array_equal(after(kept(ids)), after(layer(ids)))


def test_refuses_what_memory_may_not_hold(tmp_path, monkeypatch):
    storage = keras_sparse.StorageOption("DRAM_SSDHASH", str(tmp_path), [1 << 20])
    with pytest.raises(NotImplementedError, match=r"lower tiers.*ModelCheckpoint.*`get_weights`"):
        copy.deepcopy(EmbeddingVariable(None, 2, storage=storage))
    monkeypatch.setattr(available_memory, "available_memory", lambda: 63)  # what is left
    with pytest.raises(MemoryError, match=r"room for the copy.*`get_weights`.*'embeddings' of "):
        copy.deepcopy(EmbeddingVariable(8, 2))
    copy.deepcopy(EmbeddingVariable(8, 2, row_dtype="float16"))  # of 32 bytes


def test_is_copied_outside_of_a_function_alone():
    table = EmbeddingVariable(8, 2)
    with pytest.raises(RuntimeError, match=r"outside of a `tf\.function`"):
        tf.function(lambda: copy.deepcopy(table) and 0)()
