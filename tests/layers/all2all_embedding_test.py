"""SparseOperationKit's layers in one process: what they look up, train and refuse."""

import inspect
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
from keras_sparse.layers import All2AllDenseEmbedding
from keras_sparse.layers import All2AllSparseEmbedding

KEYS = np.random.default_rng(0).integers(-30, 30, (6, 3, 2))
BAGS = [[3, -4, 3], [], [7], [2**40, 0], [], [-1, -1]]
WEIGHTS = [[1, 2, 0.5], [], [3], [-1, 2], [], [0.5, 0.5]]
EDGE_KEYS = [-(2**63), 2**63 - 1, 0, -1, 2**40]


def dense(**options):
    return All2AllDenseEmbedding(
        **{"max_vocabulary_size_per_gpu": 100, "embedding_vec_size": 4, "slot_num": 3}
        | {"nnz_per_slot": 2, "seed": 1}
        | options
    )


def sparse(combiner="mean", **options):
    return All2AllSparseEmbedding(
        combiner,
        **{"max_vocabulary_size_per_gpu": 100, "embedding_vec_size": 4, "slot_num": 2}
        | {"max_nnz": 3, "seed": 1}
        | options,
    )


def num_rows(layer):
    (table,) = layer.variables
    return table.num_rows


@pytest.mark.parametrize(
    ("options", "keys", "output_shape"),
    [
        ({"dtype": "mixed_float16"}, KEYS, (6, 3, 2, 4)),
        ({"use_hashtable": False}, np.abs(KEYS), (6, 3, 2, 4)),
        ({"dynamic_input": True, "dtype": "mixed_float16"}, KEYS[:, 0, 0], (6, 4)),
    ],
)
def test_dense_keeps_the_layer_contract(options, keys, output_shape, tmp_path):
    checks.check_layer(dense(**options), keys, output_shape, tmp_path)


# Each combiner pools each form below.
@pytest.mark.parametrize(
    ("combiner", "form", "dtype"),
    [
        ("sum", "sparse", "float32"),
        ("mean", "ragged", "float32"),
        ("sqrtn", "dense", "mixed_float16"),
    ],
)
def test_sparse_keeps_the_layer_contract(combiner, form, dtype, tmp_path):
    inputs = KEYS  # (6 samples, 3 slots, 2 keys)
    if form == "ragged":
        inputs = tf.RaggedTensor.from_tensor(tf.constant(KEYS), ragged_rank=2)
    if form == "sparse":
        inputs = tf.sparse.from_dense(KEYS)
    checks.check_layer(sparse(combiner, slot_num=3, dtype=dtype), inputs, (6, 3, 4), tmp_path)


def test_each_key_reads_as_its_row_wherever_it_stands():
    layer = dense()
    rows = dense(dynamic_input=True, name="other")
    np.testing.assert_array_equal(layer(KEYS), tf.reshape(rows(KEYS.ravel()), (6, 3, 2, 4)))
    np.testing.assert_array_equal(layer(KEYS, True), layer(KEYS, training=True))  # as with SOK
    assert num_rows(layer) == 0
    assert np.abs(layer(KEYS)).max() <= 0.05
    assert np.std(layer(KEYS)) > 0.02


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("combiner", ["Sum", "mean", "sqrtn"])
def test_pools_the_keys_of_a_slot(combiner, weighted):
    layer = sparse(combiner, max_nnz=2)
    rows = {key: dense(dynamic_input=True)(np.array([key]))[0] for bag in BAGS for key in bag}
    expected = np.zeros((6, 4))
    for i, (bag, weights) in enumerate(zip(BAGS, WEIGHTS, strict=True)):
        if not bag:
            continue
        weights = np.array(weights if weighted else [1.0] * len(bag))
        expected[i] = sum(w * np.float64(rows[key]) for w, key in zip(weights, bag, strict=True))
        sums = {"Sum": 1, "mean": weights.sum(), "sqrtn": np.sqrt((weights**2).sum())}
        expected[i] /= sums[combiner]
    keys = tf.ragged.constant(BAGS, dtype=tf.int64)
    weights = tf.ragged.constant(WEIGHTS, dtype=tf.float32)
    for reshape in (
        lambda each: each,
        lambda each: tf.RaggedTensor.from_row_lengths(each, 3 * [2]),
    ):
        for convert in (lambda each: each, lambda each: each.to_sparse()):
            given = {"weights": convert(reshape(weights))} if weighted else {}
            pooled = layer(convert(reshape(keys)), **given)
            np.testing.assert_allclose(pooled, expected.reshape(3, 2, 4), atol=1e-6)


@pytest.mark.parametrize("make", [dense, sparse])
@pytest.mark.parametrize("dim", [1, 3, 5, 1500])
def test_takes_any_width_any_key_and_any_batch(dim, make):
    nnz = {"nnz_per_slot": 5} if make is dense else {"max_nnz": 5}
    layer = make(embedding_vec_size=dim, slot_num=1, key_dtype="int64", **nnz)
    model = keras.Sequential([keras.Input((1, 5), dtype="int64"), layer, keras.layers.Flatten()])
    model.compile(keras_sparse.optimizers.SGD(1.0), loss="mse", run_eagerly=True)
    keys = np.array([[EDGE_KEYS]])
    expected = model(keys)[0].numpy()
    for batch_size in (3, 1, 0, 2):
        batch = np.repeat(keys, batch_size, axis=0)
        model.train_on_batch(batch, np.ones((batch_size, expected.size), "float32"))
        # Of 5 * dim numbers that count, or of dim numbers with a part of 1 / 5 in each.
        expected -= bool(batch_size) * 2 * (expected - 1) / (5 * dim)
        assert layer(batch).shape.as_list() == [batch_size, 1, *[5] * (make is dense), dim]
        np.testing.assert_allclose(model(keys)[0], expected, atol=1e-6)
    assert num_rows(layer) == 5


@pytest.mark.parametrize("make", [dense, sparse])
@pytest.mark.parametrize("use_hashtable", [True, False])
def test_config_makes_the_same_layer(use_hashtable, make, tmp_path):
    of_table = {
        "storage": keras_sparse.StorageOption("DRAM_SSDHASH", str(tmp_path), [4096]),
        "admission": keras_sparse.CounterFilter(3),
        "eviction": keras_sparse.GlobalStepEvict(5),
    }
    options = {"key_dtype": "uint32", "wire_dtype": "bfloat16", "trainable": False}
    options |= {"use_hashtable": use_hashtable, "name": "keys"}
    options["frequency"] = use_hashtable
    dtypes = {"row_dtype": "float16", "slot_dtype": "bfloat16", "rounding": "nearest"}
    given = {**options, **dtypes, **(of_table if use_hashtable else {})}
    layer = make(embedding_initializer="ones", **given)
    config = layer.get_config()
    arguments = inspect.signature(type(layer)).parameters.keys() - {"kwargs"}
    assert arguments <= config.keys()
    again = type(layer).from_config(json.loads(json.dumps(config)))
    assert again.get_config() == config
    again.build()
    (table,) = again.non_trainable_variables
    assert table.table.frequency == options.pop("frequency")
    assert {name: getattr(table.table.config, name) for name in dtypes} == dtypes
    assert {name: getattr(again, name) for name in options} == options
    assert table.input_dim == (None if use_hashtable else 100)
    assert table.max_rows == (100 if use_hashtable else None)
    for name, option in of_table.items() if use_hashtable else ():
        assert getattr(table, name).get_config() == option.get_config()
    assert isinstance(table.table.initializer, keras.initializers.Ones)


def test_takes_the_spellings_of_sok_and_its_defaults():
    keys = tf.ragged.constant(BAGS, dtype=tf.int64)
    for spelling in ("Sum", "Mean"):
        legacy, ours = sparse(spelling, name="a"), sparse(spelling.lower(), name="a")
        assert legacy.get_config() == ours.get_config()
        np.testing.assert_array_equal(legacy(keys), ours(keys))
    for make in (dense, sparse):
        default = make()
        for spelled in [
            {"key_dtype": None},
            {"key_dtype": tf.int64},
            {"key_dtype": "int64"},
            {"embedding_initializer": None},
            {"embedding_initializer": keras.initializers.RandomUniform(-0.05, 0.05)},
            {"use_hashtable": True},
        ]:
            assert make(name=default.name, **spelled).get_config() == default.get_config()


def test_arguments_come_in_the_order_of_sok():
    sizes = ["max_vocabulary_size_per_gpu", "embedding_vec_size", "slot_num"]
    options = ["use_hashtable", "key_dtype", "embedding_initializer"]
    for layer, expected in [
        (All2AllDenseEmbedding, [*sizes, "nnz_per_slot", "dynamic_input", *options]),
        (All2AllSparseEmbedding, ["combiner", *sizes, "max_nnz", "max_feature_num", *options]),
    ]:
        assert list(inspect.signature(layer).parameters)[: len(expected)] == expected


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_a_key_is_the_same_one_in_every_dtype(dtype):
    layer = dense(dynamic_input=True, key_dtype=dtype)
    expected = dense(dynamic_input=True)(np.array([5, 2**31 - 1]))
    np.testing.assert_array_equal(layer(np.array([5, 2**31 - 1], dtype)), expected)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: dense()(KEYS[:, :2]), ValueError, r"\(None, 3, 2\).*shape \(6, 2, 2\)"),
        (lambda: dense(dynamic_input=True)(KEYS), ValueError, r"\(n,\) with dynamic_input=True"),
        (lambda: dense()(tf.ragged.constant([[1]])), ValueError, "must be a tensor.*RaggedTensor"),
        (lambda: dense()(KEYS.astype("float32")), TypeError, "fit key_dtype=int64.*float32"),
        (lambda: dense(key_dtype="uint32")(KEYS), TypeError, "fit key_dtype=uint32.*int64"),
        (lambda: sparse()(tf.ragged.constant([[1]])), ValueError, "with slot_num=2.*shape"),
        (lambda: sparse()([[[1]], [[2]]]), ValueError, "with slot_num=2.*shape"),
        (lambda: sparse()([[1], [2]], True), TypeError, "pass training=True or leave it out"),
        (lambda: dense(key_dtype="float32"), ValueError, "`key_dtype` must be one of"),
        (lambda: dense(slot_num=0), ValueError, "`slot_num` must be above 0"),
        (lambda: dense(nnz_per_slot=-1), ValueError, "`nnz_per_slot` must be above 0"),
        (lambda: dense(max_vocabulary_size_per_gpu=0), ValueError, "`max_vocabulary_size_per_gpu`"),
        (lambda: dense(embedding_vec_size=2.5), TypeError, "`embedding_vec_size` must be an int"),
        (lambda: sparse("max"), ValueError, "`combiner` must be one of"),
        (lambda: sparse(None), ValueError, "`combiner` must be one of"),
        (
            lambda: dense(use_hashtable=False, eviction=keras_sparse.GlobalStepEvict(3)),
            ValueError,
            "`eviction` must be used with a hash table. Leave out use_hashtable=False",
        ),
    ],
)
def test_says_what_is_wrong(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_samples_of_an_unknown_number_of_slots_are_checked_when_they_come():
    layer = sparse(slot_num=2)
    look_up = tf.function(layer, input_signature=[tf.RaggedTensorSpec((None, None), tf.int64)])
    assert look_up(tf.ragged.constant(BAGS, dtype=tf.int64)).shape == (3, 2, 4)
    with pytest.raises(tf.errors.InvalidArgumentError, match="whole samples of slot_num=2 slots"):
        look_up(tf.ragged.constant(BAGS[:3], dtype=tf.int64))
    uneven = tf.RaggedTensor.from_row_lengths(tf.ragged.constant(BAGS, dtype=tf.int64), [1, 3, 2])
    with pytest.raises(tf.errors.InvalidArgumentError, match="must have slot_num=2 slots"):
        layer(uneven)
