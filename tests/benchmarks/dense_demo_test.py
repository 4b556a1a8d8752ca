import argparse
import re

import keras
import numpy as np
import pytest

from benchmarks import dense_demo

OPTIONS = argparse.Namespace(batch_size=4, vocabulary=50, units=8)
SMALL = ["--batch-size", "4", "--vocabulary", "50", "--units", "8", "--rounds", "1", "--steps", "2"]


@pytest.fixture
def layers(monkeypatch):
    """The embedding layers that were built, in order."""
    built, build = [], dense_demo.build_embedding

    def build_and_keep(*arguments):
        layer, optimizer = build(*arguments)
        built.append(layer)
        return layer, optimizer

    monkeypatch.setattr(dense_demo, "build_embedding", build_and_keep)
    return built


def test_shows_each_way_beside_keras(in_this_process):
    in_this_process(dense_demo)
    text = dense_demo.main(SMALL)
    cells = [re.split(r" *\| *", line)[1:-1] for line in text.splitlines() if line[:1] == "|"]
    assert cells[0][1::2] == list(dense_demo.COLUMNS)
    assert [row[0] for row in cells[2:]] == list(dense_demo.WAYS)
    for row in cells[2:]:
        assert min(float(cell) for cell in row[1:]) > 0
    assert cells[-1][2::2] == ["1.00", "1.00"]


def test_speed_is_the_time_of_keras_over_that_of_a_way():
    times = dict(zip(dense_demo.WAYS, ([1.0, 2.0, 9.0], [4.0], [8.0]), strict=True))
    rows = dense_demo.table({"embedding alone": times}).splitlines()[2:]
    assert [row.split(" | ", 1)[1] for row in rows] == ["2 | 4.00 |", "4 | 2.00 |", "8 | 1.00 |"]


def test_batches_differ_and_have_keys_of_one_table():
    (keys, labels), (others, _) = dense_demo.make_batches(4, 50)
    assert keys.shape == (4, 100, 10)
    assert labels.shape == (4, 1)
    assert set(np.unique(keys)) <= set(range(50))
    assert np.any(np.not_equal(keys, others))


def test_all_ways_train_the_rows_that_they_looked_up(layers):
    batches = dense_demo.make_batches(4, 50)
    keys = batches[1][0]
    moves = []
    for way in dense_demo.WAYS:
        step = dense_demo.make_step(way, "embedding alone", OPTIONS)
        before = layers[-1](keys)
        for batch in batches:
            looked_up = step(*batch)
        moves.append(layers[-1](keys) - before)
        assert abs(float(looked_up - before[0, 0, 0, 0])) > 0.0005, "of the second step"
    np.testing.assert_allclose(moves[0], moves[1], atol=1e-7)
    np.testing.assert_allclose(moves[:2], -0.002, rtol=0.05)  # at a rate of 0.001
    assert np.max(moves[2]) < -0.0019, "more where Keras adds up squares of equal keys' gradients"


@pytest.mark.parametrize("way", dense_demo.WAYS)
def test_the_model_learns(layers, way):
    keras.utils.set_random_seed(1)
    step = dense_demo.make_step(way, "training step", OPTIONS)
    keys, labels = dense_demo.make_batches(4, 50)[0]
    before = layers[0](keys)
    losses = [float(step(keys, labels)) for _ in range(100)]
    assert losses[-1] < 0.4, "what no sample's keys tell is 0.56 at least"
    assert np.all(np.not_equal(layers[0](keys), before))
