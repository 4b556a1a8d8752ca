import numpy as np
import pytest
import tensorflow as tf

from keras_sparse import native


def test_gives_what_was_packed_in_the_order_of_ranks():
    ids = [tf.constant([2**62, -1], tf.int64), tf.zeros((0,), tf.int64)]
    first = native.pack_slices(ids, [tf.constant([[2.0], [4.0]]), tf.zeros((0, 3))], scale=0.5)
    second = native.pack_slices(ids[::-1], [tf.zeros((0, 1)), tf.ones((2, 3))])
    unpacked_ids, values = native.unpack_slices(tf.concat([first, second], axis=0), [1, 3], 2)
    for each in unpacked_ids:
        np.testing.assert_array_equal(each, [2**62, -1])
    np.testing.assert_array_equal(values[0], [[1], [2]])
    np.testing.assert_array_equal(values[1], np.ones((2, 3)))


def test_shapes_are_known_in_a_function():
    @tf.function
    def unpack(words):
        ids, values = native.unpack_slices(words, [1, 3], 2)
        assert [each.shape.as_list() for each in (*ids, *values)] == [
            [None],
            [None],
            [None, 1],
            [None, 3],
        ]
        return ids

    unpack.get_concrete_function(tf.TensorSpec((None,), tf.int32))


@pytest.mark.parametrize("values", [tf.ones((1, 2)), tf.ones(2), tf.ones((2, 1, 1))])
def test_refuses_values_that_are_not_a_row_an_id(values):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must be \(num_ids, width\)"):
        native.pack_slices([tf.constant([1, 2], tf.int64)], [values])


def test_refuses_what_no_rank_has_packed():
    words = native.pack_slices([tf.constant([1], tf.int64)], [tf.ones((1, 2))])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"rank 1 with 0 words"):
        native.unpack_slices(words, [2], 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must be of 2 tables"):
        native.unpack_slices(words, [2, 2], 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must be \(num_words\)"):
        native.unpack_slices(words[tf.newaxis], [2], 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="`widths` must be above 0"):
        native.unpack_slices(words, [0], 1)
