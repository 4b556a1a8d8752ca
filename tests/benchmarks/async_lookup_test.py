import argparse
import collections
import itertools

import numpy as np
import pytest

from benchmarks import async_lookup


@pytest.mark.parametrize("num_rows", [1, 4, 7, 12])
def test_misses_are_those_of_a_tier_that_keeps_the_rows_used_last(num_rows):
    ids = np.random.default_rng(3).integers(0, 12, (30, 1))
    tier, misses = collections.OrderedDict.fromkeys(range(num_rows)), 0
    for number, key in enumerate(itertools.chain(*[ids[:, 0]] * 3)):
        misses += key not in tier and number >= 2 * len(ids)
        tier.pop(key, None)
        tier[key] = None
        if len(tier) > num_rows:
            tier.popitem(last=False)
    assert async_lookup.misses_a_step(ids, num_rows) == pytest.approx(misses / len(ids))


def test_one_key_in_some_is_enough_for_about_as_many_misses():
    keys = np.random.default_rng(4).permutation(20_000)  # any keys, no powers of two
    ranks = np.minimum(np.random.default_rng(5).zipf(1.2, (40, 2000)) - 1, 19_999)
    misses = [async_lookup.misses_a_step(keys[ranks], 4000, one_in) for one_in in (1, 4)]
    assert misses[1] == pytest.approx(misses[0], rel=0.1)


def test_missed_records_cross_the_bus_twice():
    bytes_moved = 1000 * async_lookup.RECORD_BYTES
    expected = 5 + bytes_moved / 50e6 + bytes_moved / 25e6
    assert async_lookup.predicted_ms(5, 1000, (50, 25)) == pytest.approx(expected)


@pytest.mark.parametrize(("on_gpu", "bus"), [(True, (50, 25)), (True, (0, 0)), (False, (50, 25))])
def test_a_prediction_is_beside_what_was_measured(on_gpu, bus):
    ids = np.random.default_rng(3).integers(0, 1000, (30, 100))
    options = argparse.Namespace(ids=ids, keys=1000, on_gpu=on_gpu, bus=bus)
    turns = {way: [([6.0, 8.0, 7.0], {"promoted": 90})] for way in async_lookup.MODES}
    text = async_lookup.prediction("a tenth", 0.1, turns, {"off": [([2.0], {})]}, options)
    assert "rows a step miss by the curve, 90 did" in text
    assert ("off 7 (3.50)" in text) == (on_gpu and bus[0] > 0)
