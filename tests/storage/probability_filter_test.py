import numpy as np
import pytest

from filter_cases import filtered
from filter_cases import remembered
from filter_cases import step
from keras_sparse import ProbabilityFilter

IDS = np.arange(-5000, 5000)


def rows_after(admission, steps=1, **kwargs):
    variable, optimizer = filtered(admission, **kwargs)
    for _ in range(steps):
        step(variable, optimizer, IDS)
    return set(np.concatenate([keys for keys, _ in variable.export()]).tolist())


def test_admits_the_share_that_it_is_asked_for():
    assert len(rows_after(ProbabilityFilter(0.1, seed=1))) == pytest.approx(1000, abs=100)
    assert len(rows_after(ProbabilityFilter(0.1, seed=1), 3)) == pytest.approx(2710, abs=150)
    assert len(rows_after(ProbabilityFilter(1))) == len(IDS)


def test_draws_by_its_seed_or_that_of_the_table():
    first, second = (rows_after(ProbabilityFilter(0.5, seed)) for seed in (1, 2))
    assert first != second
    assert first == rows_after(ProbabilityFilter(0.5, 1), seed=8)
    assert rows_after(ProbabilityFilter(0.5, 2**64 - 1)) == rows_after(ProbabilityFilter(0.5, -1))
    # Initial rows of ones have the seed 0.
    assert rows_after(ProbabilityFilter(0.5)) == rows_after(ProbabilityFilter(0.5, 0))


def test_remembers_its_steps_and_its_seed():
    variable, optimizer = filtered(ProbabilityFilter(0.5, seed=-3))
    for _ in range(4):
        step(variable, optimizer, [1])
    assert remembered(variable) == {0: 4, 1: 0, 2: 2**32 - 3, 3: 2**32 - 1}
    assert variable.stats()["waiting_keys"] == 0
    variable.clear()
    assert remembered(variable)[0] == 0
