import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies

from keras_sparse.storage.reuse_distances import reuse_distances

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
