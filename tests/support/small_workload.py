import numpy as np

from benchmarks import workloads


def make_workload(output_dim):
    """Three static tables of 40 rows, batches of 16 with an id of each."""
    generator = np.random.default_rng(3)
    ids = [list(batch) for batch in generator.integers(0, 40, (workloads.NUM_BATCHES, 3, 16))]
    facts = {"name": "test", "num_tables": 3, "input_dim": 40, "output_dim": output_dim}
    facts |= {"dynamic": False, "hotness": 1, "combiner": None, "row_splits": None}
    return workloads.Workload(ids=ids, batch_size=16, **facts)
