"""The ways to write a workload that benchmarks time train the same tables, and the same model."""

import keras
import numpy as np
import pytest

import keras_sparse
from benchmarks import workloads
from benchmarks.peers import as_written_tensorflow as as_written
from benchmarks.peers import dlrm_tensorflow as dlrm
from benchmarks.peers import floor

pytestmark = pytest.mark.slow("benchmark")


def make_workload(output_dim):
    """Three static tables of 40 rows, batches of 16 with an id of each."""
    generator = np.random.default_rng(3)
    ids = [list(batch) for batch in generator.integers(0, 40, (workloads.NUM_BATCHES, 3, 16))]
    facts = {"name": "test", "num_tables": 3, "input_dim": 40, "output_dim": output_dim}
    facts |= {"dynamic": False, "hotness": 1, "combiner": None, "row_splits": None}
    return workloads.Workload(ids=ids, batch_size=16, **facts)


def test_peers_make_the_same_steps(monkeypatch):
    start = {"embeddings_initializer": lambda shape, dtype=None: np.full(shape, 0.01, np.float32)}
    for layers in (keras_sparse.layers, keras.layers):
        make = layers.Embedding
        monkeypatch.setattr(
            layers, "Embedding", lambda *sizes, make=make, **given: make(*sizes, **start, **given)
        )
    workload = make_workload(output_dim=4)
    plain = floor.Floor(workload, "adagrad", huge=False, are_joined=True)
    step = as_written.build_ours(workload, "adagrad")
    for build in (as_written.build_tensorflow, as_written.build_keras):
        assert build(workload, "adagrad")(0).shape == (16, 12)
    for i in range(3):
        plain.step(i)
        expected = np.concatenate(plain.outputs, axis=1)
        np.testing.assert_allclose(step(i), expected, rtol=1e-5, atol=1e-7)
    losses = []
    for build in (dlrm.build_ours, dlrm.build_keras):
        keras.utils.set_random_seed(1)
        step = build(make_workload(output_dim=32), "adagrad")
        losses.append([float(step(i % 2)) for i in range(6)])
        np.testing.assert_allclose(losses[-1], losses[0], rtol=1e-4)
    assert losses[0][-2:] < losses[0][:2]
