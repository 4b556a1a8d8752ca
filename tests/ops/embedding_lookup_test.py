import functools

import numpy as np
import pytest
import tensorflow as tf

from embedding_lookup_cases import dense
from embedding_lookup_cases import ROWS
from embedding_lookup_cases import table
from keras_sparse import ops
from pairwise import each_pair

RAGGED = tf.ragged.constant([[6, 1, 1], [], [0]], dtype=tf.int64)


def run(lookup, variable, ids, max_norm):
    """Rows of ids, and the gradient of a sum in which no two rows count alike."""
    with tf.GradientTape() as tape:
        rows = lookup(variable, ids, max_norm=max_norm)
        flat = rows.flat_values if isinstance(rows, tf.RaggedTensor) else rows
        flat = tf.reshape(flat, (-1, 3))
        counts = tf.range(1.0, tf.cast(tf.shape(flat)[0], tf.float32) + 1)
        loss = tf.reduce_sum(flat**2 * counts[:, tf.newaxis])
    return rows, tape.gradient(loss, variable)


def check_equals_tensorflow(ids, max_norm, input_dim=7, dtype="int64"):
    """Compares rows and gradients, outside of a `tf.function` and inside."""
    variable = table(input_dim)
    expected, expected_grad = run(tf.nn.embedding_lookup, tf.Variable(ROWS), ids, max_norm)
    given = tf.cast(ids, dtype)
    ours = functools.partial(run, ops.embedding_lookup, variable, max_norm=max_norm)
    for runner in (ours, tf.function(lambda ids: ours(ids))):
        rows, grad = runner(given)
        assert rows.shape.as_list() == expected.shape.as_list()
        if isinstance(ids, tf.RaggedTensor):
            np.testing.assert_array_equal(rows.row_splits, expected.row_splits)
            rows, flat = rows.flat_values, expected.flat_values
        else:
            flat = expected
        np.testing.assert_allclose(rows, flat, rtol=1e-6)
        np.testing.assert_allclose(dense(grad), dense(expected_grad), rtol=1e-5, atol=1e-6)


@each_pair(
    shape=[(), (5,), (2, 3), (2, 1, 3), (0,), (2, 0)], input_dim=[7, None], max_norm=[None, 0.9]
)
def test_equals_tensorflow_in_rows_and_gradients(shape, input_dim, max_norm):
    ids = tf.constant(np.random.default_rng(0).integers(0, 7, shape))
    check_equals_tensorflow(ids, max_norm, input_dim)


@pytest.mark.parametrize("max_norm", [None, 0.9])
def test_equals_tensorflow_for_ragged_ids(max_norm):
    check_equals_tensorflow(RAGGED, max_norm)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "uint64"])
def test_takes_ids_of_any_integer_dtype(dtype):
    check_equals_tensorflow(tf.constant([[3, 0], [6, 3]], tf.int64), None, dtype=dtype)


@pytest.mark.parametrize("ids", [3, np.int32(3), [3, 0], ((3, 0), (1, 2)), np.array([3]), []])
def test_takes_numbers_arrays_and_lists(ids):
    rows = ops.embedding_lookup(table(), ids)
    np.testing.assert_array_equal(rows, ROWS[np.asarray(ids, "int64")])


def test_reads_lists_of_different_lengths_as_ragged_ids():
    rows = ops.embedding_lookup(table(), [[6, 1, 1], [], [0]])
    np.testing.assert_array_equal(rows.row_splits, RAGGED.row_splits)
    np.testing.assert_array_equal(rows.values, ROWS[[6, 1, 1, 0]])


def test_keeps_the_axes_within_and_around_a_ragged_one():
    nested = tf.ragged.constant([[[1], [2, 3]], []], dtype=tf.int32)
    rows = ops.embedding_lookup(table(), nested)
    assert rows.shape.as_list() == [2, None, None, 3]
    np.testing.assert_array_equal(rows.flat_values, ROWS[[1, 2, 3]])
    pairs = tf.RaggedTensor.from_row_lengths(tf.constant([[1, 2], [3, 4]]), [2, 0])
    rows = ops.embedding_lookup(table(), pairs)
    assert rows.shape.as_list() == [2, None, 2, 3]
    np.testing.assert_array_equal(rows[0], ROWS[[[1, 2], [3, 4]]])


def test_reads_batches_of_unknown_size_inside_a_function():
    signature = [tf.TensorSpec((None, None), tf.int32)]
    read = tf.function(lambda ids: ops.embedding_lookup(variable, ids), signature)
    variable = table()
    assert read.get_concrete_function().output_shapes.as_list() == [None, None, 3]
    for shape in ((2, 3), (0, 3), (2, 0)):
        assert read(tf.zeros(shape, tf.int32)).shape == (*shape, 3)


def test_scales_only_rows_of_a_larger_norm():
    variable = table(2, np.array([[3, 4, 0], [0, 0, 1]], "float32"))
    rows = ops.embedding_lookup(variable, [0, 1], max_norm=2)
    np.testing.assert_allclose(rows, [[1.2, 1.6, 0], [0, 0, 1]], rtol=1e-6)


def test_takes_ids_of_a_number_of_axes_that_is_not_known():
    variable = table(None)

    @tf.function(input_signature=[tf.TensorSpec(None, tf.int64)])
    def lookup(ids):
        return ops.embedding_lookup(variable, ids)

    for shape in [(), (2,), (2, 0), (1, 2, 1)]:
        ids = tf.ones(shape, tf.int64)
        np.testing.assert_array_equal(lookup(ids), ops.embedding_lookup(variable, ids))
        assert lookup(ids).shape == (*shape, variable.output_dim)
