import keras
import numpy as np
import pytest

import keras_sparse
from benchmarks import dlrm_as_written
from benchmarks import timing
from benchmarks.peers import dlrm_as_written_tensorflow
from benchmarks.peers import dlrm_tensorflow
from small_workload import make_workload

BUILDS = [
    dlrm_as_written_tensorflow.build_ours,
    dlrm_as_written_tensorflow.build_ours_as_list,
    dlrm_as_written_tensorflow.build_keras,
    dlrm_tensorflow.build_ours_grouped,
    dlrm_tensorflow.build_keras,
]


@pytest.fixture
def equal_tables(monkeypatch):
    """Layers, ours and Keras', that begin with the same rows."""
    start = {"embeddings_initializer": lambda shape, dtype=None: np.full(shape, 0.01, np.float32)}
    for layers in (keras_sparse.layers, keras.layers):
        make = layers.Embedding
        monkeypatch.setattr(
            layers, "Embedding", lambda *sizes, make=make, **given: make(*sizes, **start, **given)
        )


def losses(build):
    keras.utils.set_random_seed(1)
    step = build(make_workload(output_dim=32), "adagrad")
    return [float(step(i % 2)) for i in range(6)]


def test_all_ways_train_one_model(equal_tables):
    of_each = [losses(build) for build in BUILDS]
    assert of_each[0][-2:] < of_each[0][:2]
    for others in of_each[1:]:
        np.testing.assert_allclose(others, of_each[0], rtol=1e-4)


@pytest.mark.parametrize("build", ["build_by_hand", "build_dense_alone"])
@pytest.mark.parametrize("module", [dlrm_as_written_tensorflow, dlrm_tensorflow])
def test_peers_without_layers_learn(module, build):
    def loss_of(workload, column):
        step = getattr(module, build)(workload, column)
        return lambda i: step(i)[0]

    first, *_, last = losses(loss_of)
    assert last < first


def test_shows_each_beside_the_dense_part_alone():
    times = {peer.name: [2.0 * (i + 1)] * 3 for i, peer in enumerate(dlrm_as_written.PEERS)}
    result = {"times": {"adagrad": times}, "left_out": {}}
    text = timing.table(result, dlrm_as_written.PEERS, ["adagrad"], dlrm_as_written.DENSE_ALONE)
    ratios = text.split("As many times as TensorFlow, dense part alone:")[1]
    assert "| keras_sparse, output_mode | 0.33 |" in ratios
    assert "| FBGEMM TBE | 1.33 |" in ratios
