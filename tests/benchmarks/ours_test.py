import numpy as np
import pytest

from benchmarks import workloads
from benchmarks.peers import ours

INPUT_DIM, BATCH_SIZE = 40, 16


def make_workload():
    generator = np.random.default_rng(3)
    shape = (workloads.NUM_BATCHES, 2, BATCH_SIZE)
    ids = [list(batch) for batch in generator.integers(0, INPUT_DIM, shape)]
    facts = {"name": "test", "num_tables": 2, "input_dim": INPUT_DIM, "output_dim": 4}
    facts |= {"dynamic": False, "hotness": 1, "combiner": None, "row_splits": None}
    return workloads.Workload(ids=ids, batch_size=BATCH_SIZE, **facts)


@pytest.fixture
def made_layers(monkeypatch):
    """The layers of each peer that was built, which begin alike."""
    made, make = [], ours.make_layers

    def make_and_keep(workload, *storage):
        layers = make(workload, *storage)
        for table, layer in enumerate(layers):
            layer.set_weights([np.full((INPUT_DIM, 4), table + 1.0, np.float32)])
        made.append(layers)
        return layers

    monkeypatch.setattr(ours, "make_layers", make_and_keep)
    return made


@pytest.mark.parametrize("build", [ours.build, ours.build_grouped])
def test_one_call_takes_a_step_with_each_batch(build, made_layers):
    workload = make_workload()
    step = build(workload, "adam")
    for i in range(workloads.NUM_BATCHES):
        step(i)
    build(workload, "adam", in_one_call=True)(0)
    for stepped, called in zip(*made_layers, strict=True):
        rows = stepped.get_weights()[0]
        assert np.abs(rows - rows.round()).max() > 1e-3
        np.testing.assert_array_equal(called.get_weights()[0], rows)
