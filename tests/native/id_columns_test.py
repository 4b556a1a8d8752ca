import numpy as np
import pytest
import tensorflow as tf

from keras_sparse import native
from keras_sparse.native import library

SHAPES = [(0, 3), (1, 1), (5, 1), (1, 26), (8, 8), (1027, 26)]


def matrix_of(shape, dtype):
    limits = np.iinfo(dtype)
    ids = np.random.default_rng(0).integers(limits.min, limits.max, shape, dtype, endpoint=True)
    if ids.size > 1:
        ids.flat[:2] = limits.min, limits.max
    return ids


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("shape", SHAPES)
def test_gives_the_columns_of_a_matrix(shape, dtype):
    matrix, num_columns = matrix_of(shape, dtype), shape[1]
    are_bags = [i % 2 == 1 for i in range(num_columns)]
    in_function = tf.function(
        lambda ids: native.id_columns(ids, are_bags),
        input_signature=[tf.TensorSpec((None, None), dtype)],
    )
    for split in (lambda ids: native.id_columns(ids, are_bags), in_function):
        columns = split(tf.constant(matrix))
        assert len(columns) == num_columns
        for i, column in enumerate(columns):
            assert column.dtype == tf.int64
            expected = matrix[:, i, np.newaxis] if are_bags[i] else matrix[:, i]
            np.testing.assert_array_equal(column, expected)


def test_shapes_are_known_while_a_function_is_traced():
    @tf.function(input_signature=[tf.TensorSpec((None, 2), tf.int32)])
    def split(matrix):
        columns = native.id_columns(matrix, [False, True])
        assert [each.shape.as_list() for each in columns] == [[None], [None, 1]]
        return columns

    split(tf.zeros((4, 2), tf.int32))


def test_columns_are_as_any_tensor():
    """Each starts where TensorFlow's kernels need it to, and has no more than its own ids."""
    matrix = matrix_of((13, 5), np.int64)
    columns = native.id_columns(tf.constant(matrix), [False] * 5)
    np.testing.assert_array_equal(tf.stack(columns, axis=1), matrix)
    np.testing.assert_array_equal(tf.reverse(columns[3], [0]), matrix[::-1, 3])
    np.testing.assert_array_equal(columns[4] // 3, matrix[:, 4] // 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"matrix": [[1, 2, 3]]}, r"one column an output, 2\. Received: matrix\.shape=\[1,3\]"),
        ({"matrix": [1, 2]}, r"one column an output, 2\. Received: matrix\.shape=\[2\]"),
        ({"are_bags": [True]}, r"`are_bags` must have one entry a column, 2\. Received: 1"),
    ],
)
def test_other_inputs_are_refused(arguments, words):
    given = {"matrix": [[1, 2]], "N": 2, "are_bags": [False, False], **arguments}
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        library.lib.keras_sparse_id_columns(**given)


@pytest.mark.parametrize("shape", [(None, 3), (2,)])
def test_other_shapes_are_refused_while_a_function_is_traced(shape):
    split = tf.function(lambda matrix: native.id_columns(matrix, [False] * 2))
    with pytest.raises(ValueError, match=r"must be rank 2|must be 2 but is 3"):
        split.get_concrete_function(tf.TensorSpec(shape, tf.int64))
