import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies

from keras_sparse.storage.access_trace import access_trace
from keras_sparse.storage.reuse_distances import reuse_distances


def steps(ids, batch_size=None, ignore=None):
    found = list(access_trace(ids, batch_size, ignore))
    assert all(keys.dtype == np.int64 for keys in found)
    return [keys.tolist() for keys in found]


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8])
def test_cuts_an_array_into_distinct_ascending_keys(dtype):
    ids = np.array([3, -1, 3, 7, 7, 7, 5], dtype)
    assert steps(ids, 3) == [[-1, 3], [7], [5]]
    assert steps(tf.constant(ids), 3) == [[-1, 3], [7], [5]]


def test_a_step_of_an_array_has_32_samples_if_it_is_not_said():
    expected = [list(range(32)), list(range(32, 40))]
    assert [step.tolist() for step in access_trace(np.arange(40), None, None)] == expected


def test_a_sample_of_an_array_is_a_row():
    assert steps(np.array([[2, 1], [1, 1], [0, 9]]), 2) == [[1, 2], [0, 9]]


def test_a_sample_of_a_ragged_tensor_is_a_row():
    ids = tf.ragged.constant([[4, 2], [], [7], [7, 4]])
    assert steps(ids, 2) == [[2, 4], [4, 7]]
    nested = tf.ragged.constant([[[4], [2, 3]], [], [[7, 8, 9]]])
    assert steps(nested, 1) == [[2, 3, 4], [], [7, 8, 9]]
    assert steps(nested[2:], 1) == [[7, 8, 9]]


def test_takes_steps_of_every_kind():
    sparse = tf.sparse.from_dense([[0, 6], [6, 5]])
    ragged = tf.ragged.constant([[1], [1, 2]])
    mixed = [np.array([[2, 2], [1, 2]]), tf.constant([3]), ragged, sparse, [], [8, 7, 8]]
    expected = [[1, 2], [3], [1, 2], [5, 6], [], [7, 8]]
    assert steps(mixed) == expected
    assert steps(step for step in mixed) == expected
    assert steps([mixed]) == [[1, 2, 3, 5, 6, 7, 8]]


def test_takes_a_dataset():
    dataset = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[4, 2], [], [7, 4]]))
    assert steps(dataset.batch(2)) == [[2, 4], [4, 7]]


def test_unsigned_ids_keep_their_bits():
    ids = np.array([2**64 - 1, 2**63, 5], np.uint64)
    assert steps(ids, 3) == [[-(2**63), -1, 5]]
    assert steps(ids, 3, ignore=2**64 - 1) == [[-(2**63), 5]]


def test_leaves_out_what_is_to_be_ignored():
    assert steps([[0, 1, 0], [0], [2]], ignore=0) == [[1], [], [2]]
    assert steps([[-5, 1]], ignore=-5) == [[1]]


LABELLED = tf.data.Dataset.from_tensors((1, 2))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (
            {"ids": np.zeros(3), "batch_size": 1},
            TypeError,
            "must be integers. Received: .* float64",
        ),
        ({"ids": [[0.5]]}, TypeError, "`ids` must be integers. Received: ids of dtype float64"),
        ({"ids": [["a"]]}, TypeError, "`ids` must be integers"),
        ({"ids": [[True]]}, TypeError, "`ids` must be integers. Received: ids of dtype bool"),
        (
            {"ids": [1, 2]},
            TypeError,
            r"must have an axis of ids.*np\.array\(ids\) and `batch_size`",
        ),
        ({"ids": 5}, TypeError, "`ids` must be an array, .* Received: ids of type int"),
        ({"ids": {"item": [1]}}, TypeError, "Received: ids of type dict"),
        ({"ids": LABELLED}, TypeError, "A step of `ids` must be ids alone; .* Received: a tuple"),
        ({"ids": LABELLED.repeat()}, ValueError, r"must come to an end; .*`ids\.take\(steps\)`"),
        ({"ids": np.array(3), "batch_size": 1}, ValueError, "must have an axis of samples"),
        ({"ids": np.arange(3), "batch_size": 0}, ValueError, "`batch_size` must be above 0"),
        ({"ids": np.arange(3), "batch_size": 1.5}, TypeError, "`batch_size` must be an integer"),
        ({"ids": [[1], [2]], "batch_size": 2}, ValueError, "`batch_size` must be None for an iter"),
        ({"ids": [[1]], "ignore": 2**64}, ValueError, "`ignore` must be an id of 64 bits"),
        ({"ids": [[1]], "ignore": 0.0}, TypeError, "`ignore` must be an integer"),
    ],
)
def test_refuses_what_it_cannot_read(arguments, error, words):
    with pytest.raises(error, match=words):
        steps(**arguments)


STEPS = strategies.lists(strategies.sets(strategies.integers(-6, 6), max_size=8), max_size=25)


def distances_of(steps):
    keys = np.array([key for step in steps for key in sorted(step)], np.int64)
    return reuse_distances(keys, np.array([len(step) for step in steps], np.int64))


def distances_by_hand(steps):
    """By a list of the rows: the one used last in front, of one step the greater key."""
    stack, distances = [], []
    for step in steps:
        distances += [stack.index(key) for key in step if key in stack]
        stack = sorted(step, reverse=True) + [key for key in stack if key not in step]
    return distances


@settings(deadline=None, derandomize=True, database=None)
@given(STEPS)
def test_agrees_with_a_list_in_order_of_use(steps):
    assert sorted(distances_of(steps)) == sorted(distances_by_hand(steps))


@pytest.mark.parametrize("size", [1, 7, 64])
def test_agrees_on_a_longer_stream(size):
    rng = np.random.default_rng(size)
    steps = [set(rng.zipf(1.3, size) % 500 - 250) for _ in range(1500 // size)]
    assert sorted(distances_of(steps)) == sorted(distances_by_hand(steps))


def test_keys_may_be_any_64_bits():
    ends = [-(2**63), 2**63 - 1]
    assert sorted(distances_of([set(ends), {ends[0]}])) == [1]
