import argparse
import functools
import re

import numpy as np
import pytest

import keras_sparse
from benchmarks import rule_loops

OPTIONS = argparse.Namespace(rows=8, width=3, rounds=2)


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch):
    monkeypatch.setattr(rule_loops, "STEPS", 3)


def test_a_call_takes_all_steps(monkeypatch):
    made, make = [], keras_sparse.EmbeddingVariable

    def make_and_keep(*arguments):
        made.append(make(*arguments, initializer="zeros"))
        return made[-1]

    monkeypatch.setattr(keras_sparse, "EmbeddingVariable", make_and_keep)
    make_sgd = functools.partial(keras_sparse.optimizers.SGD, 0.5)
    all_rows, one_row, floats = rule_loops.make_calls(make_sgd, OPTIONS)
    assert floats == OPTIONS.width
    gradients = np.random.default_rng(1).normal(size=(OPTIONS.rows, OPTIONS.width))
    all_rows()
    np.testing.assert_allclose(next(made[0].export())[1], -1.5 * gradients, rtol=1e-5)
    one_row()
    gradients[0] *= 2
    np.testing.assert_allclose(next(made[0].export())[1], -1.5 * gradients, rtol=1e-5)


def test_every_rule_takes_its_turns():
    results = rule_loops.measure(OPTIONS)
    rules = {make().rule for make in rule_loops.optimizers().values()}
    assert len(rules) > 12
    # The row of 3 and its slots.
    assert [results[name][1] for name in ("sgd", "momentum", "adam_async")] == [3, 6, 9]
    assert all(len(times) == OPTIONS.rounds for times, _ in results.values())


def test_shows_what_a_rule_is_to_adagrad():
    text = rule_loops.table({"adagrad": ([10.0], 8), "adam": ([30.0, 10.0, 15.0], 12)})
    assert re.split(r" \| ", text.splitlines()[-1].strip("| ")) == ["adam", "15", "1.50", "1.50"]
