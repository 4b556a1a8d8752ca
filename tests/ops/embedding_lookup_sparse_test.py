import itertools

import numpy as np
import pytest
import tensorflow as tf

import embedding_lookup_cases as cases
from embedding_lookup_cases import dense
from embedding_lookup_cases import ROWS
from embedding_lookup_cases import table
from embedding_lookup_cases import with_values
from keras_sparse import ops
from pairwise import each_pair

COMBINERS = ["sum", "mean", "sqrtn"]
IDS = tf.ragged.constant([[], [6, 1, 1], [0], [], [2, 6], []], dtype=tf.int64)
WEIGHTS = IDS.with_values(tf.constant([0.5, 2, 1, -3, 0.25, 4]))
NO_IDS = IDS[:0]


def check_equals_tensorflow(ids, weights, combiner, max_norm, input_dim=7):
    num_bags = int(ids.shape[0])

    def theirs(variable, ids, weights):
        """TensorFlow's function, which leaves out the last bags if they are empty."""
        pooled = tf.nn.embedding_lookup_sparse(variable, ids, weights, combiner, max_norm)
        return tf.pad(pooled, [[0, num_bags - tf.shape(pooled)[0]], [0, 0]])

    def ours(*args):
        return ops.embedding_lookup_sparse(*args, combiner, max_norm)

    cases.check_equals_tensorflow(theirs, ours, ids, weights, input_dim)


@each_pair(
    pooled=list(itertools.product([None, WEIGHTS.values], [*COMBINERS, None])),
    is_sparse=[False, True],
    input_dim=[7, None],
    max_norm=[None, 0.9],
)
def test_equals_tensorflow_in_rows_and_gradients(pooled, is_sparse, input_dim, max_norm):
    ids = IDS.to_sparse() if is_sparse else IDS
    check_equals_tensorflow(ids, *pooled, max_norm, input_dim)


@each_pair(is_sparse=[True, False], max_norm=[None, 0.9], weights=[None, WEIGHTS.values[:0]])
def test_an_empty_batch_gives_no_rows(weights, max_norm, is_sparse):
    ids = NO_IDS.to_sparse() if is_sparse else NO_IDS
    check_equals_tensorflow(ids, weights, "mean", max_norm)


@pytest.mark.parametrize("max_norm", [None, 0.9])
@pytest.mark.parametrize("combiner", COMBINERS)
def test_weights_that_add_up_to_nothing_pool_to_zeros(combiner, max_norm):
    variable = table()
    weights = tf.zeros((2,))
    with tf.GradientTape() as tape:
        tape.watch(weights)
        ids = tf.RaggedTensor.from_row_lengths(tf.constant([1, 2]), [2])
        pooled = ops.embedding_lookup_sparse(
            variable, ids, ids.with_values(weights), combiner, max_norm
        )
    np.testing.assert_array_equal(pooled, np.zeros((1, 3)))
    for grad in tape.gradient(pooled, [variable, weights]):
        assert np.isfinite(dense(grad)).all()


@pytest.mark.parametrize("max_norm", [None, 0.9])
def test_takes_sparse_ids_in_any_order(max_norm):
    ids = tf.SparseTensor([[1, 5], [0, 2], [1, 0]], tf.constant([3, 4, 5]), (3, 9))
    weights = with_values(ids, tf.constant([1.0, 10, 100]))
    pooled = ops.embedding_lookup_sparse(table(), ids, weights, "sum", max_norm)
    ids, weights = (tf.sparse.reorder(each) for each in (ids, weights))
    expected = ops.embedding_lookup_sparse(table(), ids, weights, "sum", max_norm)
    np.testing.assert_array_equal(pooled, expected)
    if max_norm is None:
        wanted = [10 * ROWS[4], ROWS[3] + 100 * ROWS[5], np.zeros(3)]
        np.testing.assert_allclose(pooled, wanted, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32", "uint64"])
def test_takes_ids_of_any_integer_dtype_and_weights_of_any_float_type(dtype):
    expected = ops.embedding_lookup_sparse(table(), IDS, WEIGHTS, "sum")
    for weights in (tf.cast(WEIGHTS, tf.float64), tf.cast(WEIGHTS, tf.float16)):
        pooled = ops.embedding_lookup_sparse(table(), tf.cast(IDS, dtype), weights, "sum")
        np.testing.assert_array_equal(pooled, expected)


def test_reads_batches_of_unknown_size_inside_a_function():
    variable = table()
    spec = tf.SparseTensorSpec((None, None), tf.int64)
    read = tf.function(lambda ids: ops.embedding_lookup_sparse(variable, ids, None), [spec])
    assert read.get_concrete_function().output_shapes.as_list() == [None, 3]
    for ids in (IDS, NO_IDS, IDS[3:4]):
        assert read(ids.to_sparse()).shape == (ids.shape[0], 3)
