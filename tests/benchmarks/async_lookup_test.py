import re

import numpy as np
import pytest

from benchmarks import async_lookup

SMALL = ["--keys", "5000", "--rounds", "1", "--steps", "4", "--batch-size", "16"]
SMALL += ["--warm-steps", "4", "--first-steps", "4"]


@pytest.fixture
def rows(in_this_process, tmp_path):
    """The cells of each way, by the case and its name."""
    in_this_process(async_lookup)
    text = async_lookup.main([*SMALL, "--folder", str(tmp_path)])
    assert list(tmp_path.iterdir()) == []
    tables = [table.splitlines() for table in text.split("\n\n")[1:]]
    cells = [[re.split(r" *\| *", line)[1:-1] for line in table] for table in tables]
    return {case[0][0]: {way[0]: way[1:] for way in case[2:]} for case in cells}


@pytest.mark.filterwarnings("ignore:When providing `inputs` as a dict")  # Keras' own
def test_the_ways_stand_side_by_side_with_what_they_are_measured_against(rows):
    ways = [list(each) for each in rows.values()]
    beyond_memory = [*async_lookup.MODES, *async_lookup.ALONE]
    assert ways[-1] == list(async_lookup.MODES)
    assert ways[:-1] == [beyond_memory] * (len(ways) - 1)
    assert len(ways) >= 2
    for cells in (cells for case in rows.values() for cells in case.values()):
        step, mean, fastest_and_steps, rounds, ratio = cells[:5]
        assert min(float(each) for each in (step, mean, ratio)) > 0
        assert 0 < float(fastest_and_steps.split(", ")[0]) <= float(step)
        assert fastest_and_steps.split(", ")[1] == "4"
        assert rounds == step
    # Only stale rows miss updates.
    for case in rows.values():
        assert case["off"][5:] == [""] * 4
        assert case["exact"][-1] == "0, 0"
        used, missed, waited, _ = case["stale"][5:]
        assert int(used) + int(missed) == 4
        assert float(waited) >= 0


def test_batches_that_are_drawn_come_in_turn():
    options = async_lookup.parse([*SMALL, "--drawn", "3"])
    options.ids = async_lookup.draw_ids(np.random.default_rng(1), options.drawn, options)
    next_ids = async_lookup.ids_of_batches(options)
    for expected in ([0, 1], [2, 0, 1, 2]):
        np.testing.assert_array_equal(next_ids(len(expected)), options.ids[expected])
