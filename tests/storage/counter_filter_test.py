import numpy as np
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies

from filter_cases import filtered
from filter_cases import read
from filter_cases import remembered
from filter_cases import step
from keras_sparse import CounterFilter

KEYS = (-(2**63), -1, 0, 5, 2**63 - 1)


def test_of_one_makes_rows_as_without_a_filter():
    variable, optimizer = filtered(CounterFilter(1, default_value_no_permission=-2.0))
    assert read(variable, [7]) == [-2]
    step(variable, optimizer, [7])
    assert read(variable, [7, 8]) == [0.75, -2]


def test_reads_the_initial_row_if_asked_to():
    variable, optimizer = filtered(CounterFilter(2, "initializer"))
    step(variable, optimizer, [7])
    assert read(variable, [7, 8]) == [1, 1]
    step(variable, optimizer, [7])
    assert read(variable, [7, 8]) == [0.75, 1]


def test_reports_what_it_does():
    variable, optimizer = filtered(CounterFilter(2))
    step(variable, optimizer, [1, 2, 2])
    step(variable, optimizer, [2, 3])
    step(variable, optimizer, [2])
    stats = variable.stats()
    assert stats["filtered_ids"] == 3
    assert stats["waiting_keys"] == 2
    assert stats["created_rows"] == stats["rows"] == 1
    assert stats["filter_bytes"] > 0


def test_a_waiting_key_takes_at_most_16_bytes():
    variable, optimizer = filtered(CounterFilter(2))
    for first in range(0, 200_000, 50_000):
        step(variable, optimizer, np.arange(first, first + 50_000))
        stats = variable.stats()
        assert stats["filter_bytes"] <= 16 * stats["waiting_keys"]


class Model:
    """What a filtered table of rows of ones does, in dicts."""

    def __init__(self, filter_freq, count):
        self.filter_freq, self.counts, self.rows = filter_freq, {}, {}
        self.counts_occurrences = count == "occurrences"

    def step(self, ids):
        for key in set(ids):
            if key not in self.rows:
                more = ids.count(key) if self.counts_occurrences else 1
                self.counts[key] = self.counts.get(key, 0) + more
                if self.counts[key] < self.filter_freq:
                    continue
                del self.counts[key]
                self.rows[key] = 1.0
            self.rows[key] -= 0.25 * ids.count(key)

    def import_(self, keys):
        for key in keys:
            self.counts.pop(key, None)
            self.rows[key] = 9.0


ids = strategies.lists(strategies.integers(-3, 3) | strategies.sampled_from(KEYS), max_size=12)
actions = strategies.lists(
    strategies.tuples(strategies.sampled_from(["step"] * 6 + ["import", "clear"]), ids), max_size=12
)


@settings(deadline=None, max_examples=60)
@given(
    filter_freq=strategies.integers(1, 4),
    count=strategies.sampled_from(["steps", "occurrences"]),
    actions=actions,
)
def test_does_what_dicts_do(filter_freq, count, actions):
    variable, optimizer = filtered(CounterFilter(filter_freq, count=count))
    model = Model(filter_freq, count)
    for action, keys in actions:
        if action == "step":
            step(variable, optimizer, keys)
            model.step(keys)
        elif action == "import":
            variable.import_(np.array(keys, np.int64), np.full((len(keys), 1), 9.0))
            model.import_(keys)
        else:
            variable.clear()
            model = Model(filter_freq, count)
        seen = sorted({-3, 3, *KEYS, *model.rows, *model.counts})
        assert remembered(variable) == model.counts
        assert variable.num_rows == len(model.rows)
        assert read(variable, seen) == [model.rows.get(key, 0.0) for key in seen]
