import os
import pathlib

import pytest

from keras_sparse.distribute.ranks.collectives import broadcast_object

# On one rank these hold what no test of one process does. All files run on several.
ON_ONE = [
    "broadcast_variables",
    "callbacks",
    "collective_counts",
    "collectives",
    "distributed_embedding",
    "distributed_layer",
    "distributed_optimizer",
    "dynamic_options",
    "exchange_errors",
    "gradient_tape",
    "keys_of_ranks",
    "measure_speeds",
    "rank_errors",
    "sampled_softmax",
    "shard",
    "unused_table",
    "whole_tables",
]
if "HOROVOD_RANK" in os.environ:
    # Tables are small, and cores as many as ranks or fewer.
    os.environ |= {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
else:
    files = pathlib.Path(__file__).parent.glob("*_test.py")
    collect_ignore = [each.name for each in files if each.name[: -len("_test.py")] not in ON_ONE]


@pytest.fixture(name="folder")
def shared_folder(tmp_path):
    """A folder that all ranks see, and that stays until all are done."""
    yield pathlib.Path(broadcast_object(str(tmp_path), 0, "folder"))
    broadcast_object(None, 0, "done")
