import numpy as np
import pytest

from benchmarks import workloads
from benchmarks.peers import floor

INPUT_DIM, BATCH_SIZE, NUM_TABLES, STEPS = 50, 40, 3, 2


def make_workload(output_dim, pools, num_tables):
    generator = np.random.default_rng(5)
    lengths = generator.integers(0, 6, (num_tables, BATCH_SIZE)) if pools else None
    counts = lengths.sum(1) if pools else [BATCH_SIZE] * num_tables
    ids = [generator.integers(0, INPUT_DIM, count) for count in counts]
    splits = [np.concatenate([[0], np.cumsum(row)]) for row in lengths] if pools else None
    return workloads.Workload(
        name="test",
        num_tables=num_tables,
        input_dim=INPUT_DIM,
        output_dim=output_dim,
        dynamic=False,
        hotness=1,
        combiner="sum" if pools else None,
        ids=[ids] * workloads.NUM_BATCHES,
        row_splits=[splits] * workloads.NUM_BATCHES if pools else None,
        batch_size=BATCH_SIZE,
    )


def pooling_matrix(workload, table):
    """Which rows are in which output: outputs are this times the table."""
    ids = workload.ids[0][table]
    samples = np.arange(BATCH_SIZE)
    if workload.combiner:
        samples = np.repeat(samples, np.diff(workload.row_splits[0][table]))
    matrix = np.zeros((BATCH_SIZE, INPUT_DIM))
    np.add.at(matrix, (samples, ids), 1.0)
    return matrix


@pytest.mark.parametrize(("pools", "stream"), [(False, 0), (False, 1), (True, 0)])
@pytest.mark.parametrize("num_tables", [1, NUM_TABLES])
@pytest.mark.parametrize("output_dim", [4, 8, 16, 32, 64])
def test_does_the_work_of_a_step(output_dim, num_tables, pools, stream):
    workload = make_workload(output_dim, pools, num_tables)
    tables = floor.Floor(workload, "adagrad", huge=True)
    tables.stream = stream
    for _ in range(STEPS):
        tables.step(0)
    tables.forward(0)
    for table, grad in enumerate(workload.output_grads()):
        matrix = pooling_matrix(workload, table)
        rows = np.full((INPUT_DIM, output_dim), 0.01)
        sums = np.full((INPUT_DIM, output_dim), 0.1)
        for _ in range(STEPS):
            of_rows = matrix.T @ grad.astype(np.float64)
            sums += of_rows**2
            rows -= 0.01 * of_rows / np.sqrt(sums + 1e-7)
        np.testing.assert_allclose(tables.outputs[table], matrix @ rows, rtol=0, atol=2e-6)


def test_outputs_leave_the_caches_where_they_are_larger_than_half():
    assert not floor.leave_caches(0)
    assert floor.leave_caches((32 << 20) + 1)
