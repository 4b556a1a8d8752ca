"""All ways to write it give the same rows and train the same tables."""

import numpy as np
import pytest

import keras_sparse
from benchmarks.peers import as_written_tensorflow
from benchmarks.peers import floor
from small_workload import make_workload


@pytest.fixture
def equal_tables(monkeypatch):
    """Layers of ours that begin with the rows of the floor."""
    make = keras_sparse.layers.Embedding
    start = {"embeddings_initializer": lambda shape, dtype=None: np.full(shape, 0.01, np.float32)}
    monkeypatch.setattr(
        keras_sparse.layers, "Embedding", lambda *sizes: make(*sizes, **start, out_of_range="error")
    )


@pytest.mark.parametrize("column", ["forward", "sgd", "adagrad"])
def test_ours_gives_what_plain_loops_give(column, equal_tables):
    workload = make_workload(output_dim=4)
    plain = floor.Floor(workload, column, huge=False, are_joined=True)
    ways = [as_written_tensorflow.build_ours, as_written_tensorflow.build_ours_as_list]
    steps = [build(workload, column) for build in ways]
    for i in range(3):
        (plain.forward if column == "forward" else plain.step)(i)
        rows = [step(i).numpy() for step in steps]
        np.testing.assert_array_equal(*rows)
        if column != "forward":  # whose tables are trained before they are timed
            expected = np.concatenate(plain.outputs, axis=1)
            np.testing.assert_allclose(rows[0], expected, rtol=1e-5, atol=1e-7)


def test_peers_give_a_row_a_sample():
    workload = make_workload(output_dim=4)
    for build in (as_written_tensorflow.build_tensorflow, as_written_tensorflow.build_keras):
        assert build(workload, "adagrad")(0).shape == (16, 12)
