import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_sparse import ops
from keras_sparse.layers import All2AllSparseEmbedding
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.layers import GroupEmbedding
from pairwise import each_pair

WEIGHTS = np.arange(12, dtype="float32").reshape(4, 3)


def built_layer(combiner=None, input_dim=4):
    layer = Embedding(input_dim, 3, combiner)
    layer.build()
    layer.embeddings.import_(np.arange(4), WEIGHTS)
    return layer


@pytest.mark.parametrize("input_dim", [4, None])
@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
)
def test_takes_every_integer_type(dtype, input_dim):
    ids = np.array([[0, 3], [2, 2]], dtype)
    np.testing.assert_array_equal(built_layer(input_dim=input_dim)(ids), WEIGHTS[[[0, 3], [2, 2]]])


@pytest.mark.parametrize(
    ("ids", "key"),
    [
        (np.array([2**64 - 1], "uint64"), -1),
        (np.array([2**63], "uint64"), -(2**63)),
        (np.array([2**32 - 1], "uint32"), 2**32 - 1),
        (np.array([-1], "int32"), -1),
        (np.array([-(2**63)], "int64"), -(2**63)),
        (np.array([2**63 - 1], "int64"), 2**63 - 1),
        (np.array([-128], "int8"), -128),
    ],
)
def test_keeps_the_bits_of_a_dynamic_tables_ids(ids, key):
    layer = built_layer(input_dim=None)
    layer.embeddings.import_([key], [[7.0, 8.0, 9.0]])
    np.testing.assert_array_equal(layer(ids), [[7, 8, 9]])


@pytest.mark.parametrize("shape", [(), (2,), (2, 2), (2, 1, 2), (0, 3), (2, 0), (0, 0, 2)])
def test_takes_any_rank(shape):
    ids = np.arange(np.prod(shape, dtype=int)).reshape(shape) % 4
    np.testing.assert_array_equal(built_layer()(ids), WEIGHTS[ids])
    if len(shape) > 1:
        pooled = built_layer("sum")(ids)
        np.testing.assert_array_equal(pooled, WEIGHTS[ids].sum(-2))


@pytest.mark.parametrize("combiner", [None, "sum"])
@pytest.mark.parametrize("spec", [[None, None], [None, 2], [2, None], [None, None, 2]])
def test_takes_shapes_that_are_known_when_run(spec, combiner):
    layer = built_layer(combiner)
    read = tf.function(layer, input_signature=[tf.TensorSpec(spec, tf.int64)])
    for size in (2, 0):
        shape = [2 if length == 2 else size for length in spec]
        ids = np.arange(np.prod(shape)).reshape(shape) % 4
        expected = WEIGHTS[ids] if combiner is None else WEIGHTS[ids].sum(-2)
        np.testing.assert_array_equal(read(ids), expected)


LAYERS = {
    "Embedding": lambda: Embedding(4, 3, "sum"),
    "dynamic": lambda: Embedding(None, 3, "mean"),
    "DistributedEmbedding": lambda: DistributedEmbedding([Embedding(4, 3, "sum")]),
    "GroupEmbedding": lambda: GroupEmbedding([Embedding(4, 3, "sqrtn")]),
}


@each_pair(kind=LAYERS, way=["eager", "function", "symbol"], shape=[(), (4,)])
def test_refuses_to_pool_a_batch(kind, way, shape):
    layer = LAYERS[kind]()
    ids = tf.zeros(shape, tf.int64)
    if way == "symbol":
        ids = keras.Input(batch_shape=shape, dtype="int64")
    call = tf.function(layer) if way == "function" else layer
    with pytest.raises(ValueError, match=r"axis of samples and one of ids .*shape \((4,)?\)"):
        call(ids if isinstance(layer, Embedding) else [ids])


W = WEIGHTS
MIXED = tf.SparseTensor([[2, 0], [0, 1], [2, 1], [0, 0]], [3, 1, 2, 0], [3, 2])  # in any order
MIXED_WEIGHTS = tf.SparseTensor([[0, 0], [0, 1], [2, 0], [2, 1]], [1.0, 2.0, 3.0, 4.0], [3, 2])


@pytest.mark.parametrize(
    ("combiner", "ids", "weights", "expected"),
    [
        (None, [[1, 2], [3, 3]], None, [[W[1], W[2]], [W[3], W[3]]]),
        ("sum", [[1, 2], [3, 3]], None, [W[1] + W[2], 2 * W[3]]),
        ("sum", [[1, 2], [], [3]], None, [W[1] + W[2], 0 * W[0], W[3]]),
        ("sum", [[], []], None, [0 * W[0], 0 * W[0]]),
        ("sum", [[], [3]], None, [0 * W[0], W[3]]),
        ("sum", [[1, 2], [3, 3]], [[2.0, 0.5], [1.0, 1.0]], [2 * W[1] + W[2] / 2, 2 * W[3]]),
        (None, [[1, 2]], [[2.0, -1.0]], [[2 * W[1], -W[2]]]),
        ("sum", MIXED, MIXED_WEIGHTS, [W[0] + 2 * W[1], 0 * W[0], 3 * W[3] + 4 * W[2]]),
    ],
)
@pytest.mark.parametrize("input_dim", [4, None])
def test_takes_lists_and_weights(combiner, ids, weights, expected, input_dim):
    layer = built_layer(combiner, input_dim)
    np.testing.assert_array_equal(layer(ids, weights=weights), expected)


@pytest.mark.parametrize("splits_dtype", [tf.int32, tf.int64])
def test_gives_ragged_rows_for_ragged_ids(splits_dtype):
    ids = tf.ragged.constant([[1, 2], [], [3]], row_splits_dtype=splits_dtype)
    outputs = built_layer()(ids)
    assert isinstance(outputs, tf.RaggedTensor)
    np.testing.assert_array_equal(outputs.row_lengths(), [2, 0, 1])
    np.testing.assert_array_equal(outputs.values, WEIGHTS[[1, 2, 3]])


def test_reads_what_a_sparse_tensor_lacks_as_id_zero_like_keras():
    ids = tf.SparseTensor([[1, 1], [2, 0]], [1, 2], [4, 3])
    reference = keras.layers.Embedding(4, 3)
    reference.build()
    reference.set_weights([WEIGHTS])
    np.testing.assert_array_equal(built_layer()(ids), reference(ids))


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_gives_zeros_for_a_row_that_a_sparse_tensor_lacks(missing):
    rows = [row for row in range(3) if row != missing]
    ids = tf.SparseTensor([[row, row] for row in rows], tf.constant([1, 3], tf.int64), [3, 3])
    expected = np.zeros((3, 3))
    expected[rows] = WEIGHTS[[1, 3]]
    np.testing.assert_array_equal(built_layer("mean")(ids), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_takes_floats_for_a_small_static_table_as_keras_does(dtype):
    ids = np.array([[0.0, 3.0]], dtype)
    np.testing.assert_array_equal(built_layer()(ids), WEIGHTS[[[0, 3]]])


BAGS = tf.ragged.constant([[1, 2], [3]])
OF_FLOATS = "`inputs` must be integers, as floats.*Give ids as int64"
OF_NONE = "`inputs` must be integers. Turn strings into ids"
OF_WEIGHTS = "`weights` must have the structure of `inputs`"


@pytest.mark.parametrize(
    ("input_dim", "ids", "weights", "error", "words"),
    [
        (4, tf.ragged.constant([[[1]]]), None, ValueError, "`inputs` must be 2-D if it is a Ragg"),
        (None, np.array([1.0], "float32"), None, TypeError, OF_FLOATS),
        (2**24 + 1, np.array([1.0], "float32"), None, TypeError, OF_FLOATS),
        (2**11 + 1, np.array([1.0], "float16"), None, TypeError, OF_FLOATS),
        (4, np.array(["a"]), None, TypeError, OF_NONE),
        (4, np.array([True]), None, TypeError, OF_NONE),
        (4, np.array([[1, 2]]), tf.constant([[1.0, 2.0, 3.0]]), ValueError, OF_WEIGHTS),
        (4, np.array([[1, 2]]), tf.ragged.constant([[1.0, 2.0]]), ValueError, OF_WEIGHTS),
        (4, np.array([[1, 2]]), tf.SparseTensor([[0, 0]], [1.0], [1, 2]), ValueError, OF_WEIGHTS),
        (
            4,
            BAGS,
            tf.ragged.constant([[1.0], [2.0, 3.0]]),
            tf.errors.InvalidArgumentError,
            "must have the row_splits",
        ),
    ],
)
def test_refuses_other_ids_and_weights(input_dim, ids, weights, error, words):
    layer = Embedding(input_dim, 1, None if weights is None else "sum")
    with pytest.raises(error, match=words):
        layer(ids, weights=weights)


def test_works_inside_a_dataset():
    layer = built_layer("sum")
    dataset = tf.data.Dataset.from_tensor_slices([[1, 2], [3, 3]]).batch(2).map(layer)
    (outputs,) = dataset
    np.testing.assert_array_equal(outputs, [WEIGHTS[1] + WEIGHTS[2], 2 * WEIGHTS[3]])


def test_counts_an_id_once_a_step():
    layer = Embedding(4, 3, "sum", mask_zero=True)
    weights = tf.Variable([[1.0, 2.0, 1.0]])
    for kwargs in ({}, {"weights": weights}):
        with tf.GradientTape() as tape:
            outputs = layer(np.array([[0, 1, 2]]), **kwargs)
        tape.gradient(outputs, layer.trainable_variables)
    assert layer.stats()["lookups"] == 4  # padding is not looked up


OUTSIDE = tf.SparseTensor([[0, 0], [5, 0]], tf.constant([1, 2], tf.int64), [2, 3])
WEIGHTS_OUTSIDE = OUTSIDE.with_values([1.0, 1.0])


@pytest.mark.parametrize(
    "lookup",
    [
        lambda: built_layer("sum")(OUTSIDE),
        lambda: built_layer("mean")(OUTSIDE, weights=WEIGHTS_OUTSIDE),
        lambda: DistributedEmbedding([Embedding(None, 3, "sum")])([OUTSIDE]),
        lambda: GroupEmbedding({"a": Embedding(None, 3, "sum")})({"a": OUTSIDE}),
        lambda: All2AllSparseEmbedding("mean", 10, 3, slot_num=1)(OUTSIDE),
        lambda: ops.embedding_lookup_sparse(built_layer().embeddings, OUTSIDE, None),
        lambda: ops.safe_embedding_lookup_sparse(built_layer().embeddings, OUTSIDE),
        lambda: ops.group_embedding_lookup_sparse([built_layer().embeddings], [OUTSIDE], ["sum"]),
    ],
)
def test_sparse_ids_outside_of_their_shape_are_an_error_that_says_so(lookup):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"SparseTensor.* within its dense_sh"):
        lookup()
