import argparse
import re

import numpy as np
import pytest

from benchmarks import small_models

OPTIONS = argparse.Namespace(tables=2, batch_size=4, steps=3, rounds=1, calls=1)
SMALL = ["--tables", "2", "--batch-size", "4", "--steps", "3", "--rounds", "1", "--calls", "1"]


def cells_of(text):
    return [re.split(r" *\| *", line)[1:-1] for line in text.splitlines() if line[:1] == "|"]


def test_shows_what_each_way_takes(in_this_process):
    in_this_process(small_models)
    steps, calls = (cells_of(part) for part in small_models.main(SMALL).split("\n\n")[1:])
    assert steps[0][1:] == list(small_models.COLUMNS)
    assert [row[0] for row in steps[2:]] == list(small_models.WAYS)
    for row in steps[2:]:
        assert min(float(cell.replace(",", "")) for cell in row[1:4]) > 0
    assert [bool(row[4]) for row in steps[2:]] == [False, False, True, True, True]
    assert [row[0] for row in calls[2:]] == list(small_models.CALLS)


def test_takes_turns():
    taken = []
    turns = {name: lambda name=name: taken.append(name) for name in "ab"}
    times = small_models.take_turns(turns, num_steps=1, rounds=2)
    assert "".join(taken) == "ababba"
    assert {name: len(each) for name, each in times.items()} == {"a": 2, "b": 2}


@pytest.mark.parametrize("way", small_models.WAYS)
def test_every_model_learns(way):
    model = small_models.make_model(way, 2, steps_per_execution=1)
    ids = np.arange(8).reshape(4, 2)
    labels = ids[:, :1] % 4 < 2
    losses = model.fit(ids, labels, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
