import copy

import pytest

from keras_sparse.callbacks.tensorboard_charts import all_counters
from keras_sparse.callbacks.tensorboard_charts import description_of
from keras_sparse.callbacks.tensorboard_charts import numbers_at_rest
from keras_sparse.callbacks.tensorboard_charts import tensorboard_charts

IDLE = {"rows": 0, "bytes": 0, "hits": 0, "misses": 0, "read_bytes": 0, "write_bytes": 0}
BEFORE = {
    "waited_seconds": 1.0,
    "tiers": {"DRAM": {**IDLE, "hits": 100, "misses": 20}, "SSDHASH": {**IDLE, "read_bytes": 50}},
    "prefetch": {"used": 4, "missed": 4, "waited_seconds": 0.5, "hidden_seconds": 0.0},
}
AFTER = {
    "waited_seconds": 3.0,
    "tiers": {
        "DRAM": {**IDLE, "rows": 7, "bytes": 900, "hits": 160, "misses": 40},
        "SSDHASH": {
            "rows": 3, "bytes": 300, "hits": 5, "misses": 15, "read_bytes": 850, "write_bytes": 40,
        },
    },
    "prefetch": {"used": 13, "missed": 5, "waited_seconds": 1.5, "hidden_seconds": 6.0},
}  # fmt: skip


def test_rates_are_what_came_in_between_by_steps_or_seconds():
    assert tensorboard_charts(BEFORE, AFTER, steps=10, seconds=4.0) == {
        "waited_seconds_per_step": 0.2,
        "DRAM_rows": 7,
        "DRAM_bytes": 900,
        "DRAM_hit_rate": 0.75,
        "DRAM_hits_per_step": 6.0,
        "DRAM_read_bytes_per_second": 0.0,
        "DRAM_write_bytes_per_second": 0.0,
        "SSDHASH_rows": 3,
        "SSDHASH_bytes": 300,
        "SSDHASH_hit_rate": 0.25,
        "SSDHASH_hits_per_step": 0.5,
        "SSDHASH_read_bytes_per_second": 200.0,
        "SSDHASH_write_bytes_per_second": 10.0,
        "prefetch_used_rate": 0.9,
        "prefetch_waited_seconds_per_step": 0.1,
        "prefetch_hidden_seconds_per_step": 0.6,
    }


def test_there_is_no_rate_of_no_time_nor_of_counts_that_began_anew():
    charts = tensorboard_charts(AFTER, AFTER, steps=0, seconds=0.0)
    assert {name for name, number in charts.items() if number is not None} == {
        f"{tier}_{level}" for tier in ("DRAM", "SSDHASH") for level in ("rows", "bytes")
    }
    again = copy.deepcopy(AFTER)
    again["tiers"]["DRAM"] |= {"hits": 2, "misses": 50}
    charts = tensorboard_charts(AFTER, again, steps=1, seconds=1.0)
    assert charts["DRAM_hits_per_step"] is None
    assert charts["DRAM_hit_rate"] is None


def test_at_rest_all_rows_are_there_and_nothing_moves():
    resting = numbers_at_rest(AFTER)
    assert resting.keys() == tensorboard_charts(BEFORE, AFTER, 1, 1.0).keys()
    assert (resting["DRAM_rows"], resting["SSDHASH_bytes"]) == (7, 300)
    assert resting["DRAM_hit_rate"] == resting["SSDHASH_hit_rate"] == 1
    assert resting["SSDHASH_read_bytes_per_second"] == resting["prefetch_used_rate"] == 0


@pytest.mark.parametrize("name", numbers_at_rest(AFTER))
def test_every_chart_says_what_it_shows(name):
    assert description_of(name).endswith(".")


def test_counters_have_the_paths_of_the_statistics():
    counters = all_counters(BEFORE, AFTER)
    assert counters["waited_seconds"] == 3.0
    assert counters["SSDHASH/read_bytes"] == 850
    assert counters["SSDHASH/hit_rate"] == 0.25
    assert counters["prefetch/used"] == 13
    assert len(counters) == 1 + 2 * 7 + 4
