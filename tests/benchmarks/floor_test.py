import dataclasses

import numpy as np
import pytest

from benchmarks import workloads
from benchmarks.peers import floor
from pairwise import each_pair

pytestmark = pytest.mark.slow("benchmark")

INPUT_DIM, BATCH_SIZE, NUM_TABLES, STEPS = 50, 40, 3, 2


def make_workload(output_dim, pools, num_tables, seed=5):
    generator = np.random.default_rng(seed)
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


def pooling_matrix(workload, table, batch=0):
    """Which rows are in which output: outputs are this times the table."""
    ids = workload.ids[batch][table]
    samples = np.arange(BATCH_SIZE)
    if workload.combiner:
        samples = np.repeat(samples, np.diff(workload.row_splits[batch][table]))
    matrix = np.zeros((BATCH_SIZE, INPUT_DIM))
    np.add.at(matrix, (samples, ids), 1.0)
    return matrix


WAYS = [(False, 0), (False, 1), (True, 0)]


@each_pair(output_dim=[4, 8, 16, 32, 64], num_tables=[1, NUM_TABLES], way=WAYS)
def test_does_the_work_of_a_step(output_dim, num_tables, way):
    pools, stream = way
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


def follow_adam(workload, steps):
    """What plain C++ makes of Adam: rows, and slots, after steps of the batch of that number."""
    shape = (workload.num_tables, INPUT_DIM, workload.output_dim)
    rows, momenta, velocities = np.full(shape, 0.01), np.full(shape, 0.1), np.full(shape, 0.1)
    last = np.zeros(shape[:2], int)

    def alpha(step):
        return 0.001 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step) if step else 0

    def caught_up(step):
        missed = (step - last)[..., None]
        ratio = 0.9 / np.sqrt(0.999)
        moves = alpha(step) * ratio * (1 - ratio**missed) / (1 - ratio)
        return rows - moves * momenta / (np.sqrt(velocities) + 1e-7), missed

    for step in range(1, steps + 1):
        moved, missed = caught_up(step - 1)
        for table, grad in enumerate(workload.output_grads()):
            touched = np.unique(workload.ids[step - 1][table])
            of_rows = (pooling_matrix(workload, table, step - 1).T @ grad.astype(np.float64))[
                touched
            ]
            at = (table, touched)
            momenta[at] *= 0.9 ** missed[at]
            velocities[at] *= 0.999 ** missed[at]
            momenta[at] += 0.1 * (of_rows - momenta[at])
            velocities[at] += 0.001 * (of_rows**2 - velocities[at])
            move = alpha(step) * momenta[at] / (np.sqrt(velocities[at]) + 1e-7)
            rows[at] = moved[at] - move
            last[at] = step
    return caught_up(steps)[0]


@each_pair(output_dim=[4, 32], num_tables=[1, NUM_TABLES], way=WAYS)
def test_moves_rows_without_a_gradient_by_adam(output_dim, num_tables, way):
    pools, stream = way
    batches = [make_workload(output_dim, pools, num_tables, seed) for seed in range(5)]
    batches += [batches[0]] * (workloads.NUM_BATCHES - len(batches))
    workload = dataclasses.replace(
        batches[0],
        ids=[batch.ids[0] for batch in batches],
        row_splits=[batch.row_splits[0] for batch in batches] if pools else None,
    )
    tables = floor.Floor(workload, "adam", huge=True)
    tables.stream = stream
    for i in range(4):
        tables.step(i)
    tables.forward(4)
    rows = follow_adam(workload, 4)
    for table in range(num_tables):
        matrix = pooling_matrix(workload, table, 4)
        np.testing.assert_allclose(tables.outputs[table], matrix @ rows[table], rtol=0, atol=2e-6)


def test_outputs_leave_the_caches_where_they_are_larger_than_half():
    assert not floor.leave_caches(0)
    assert floor.leave_caches((32 << 20) + 1)
