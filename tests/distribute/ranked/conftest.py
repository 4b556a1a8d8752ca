import os
import pathlib

import pytest

from keras_sparse.distribute.ranks.collectives import broadcast_object

# What they say of one rank, tests of one process say: these files run on several, and on one where
# they are named.
ON_SEVERAL = {
    "checkpoint": "tests/saving/checkpoint",
    "group_embedding": "tests/layers/group_embedding_test.py",
    "metric_average": "callbacks_test.py and the examples",
    "output_mode": "tests/layers/output_mode_test.py",
    "prefetch_lookups": "tests/data",
    "prefetch_staleness": "tests/data",
    "prefetch_tiers": "tests/data",
    "regularizer": "tests/layers/embeddings_regularizer_test.py",
    "several_layers": "distributed_embedding_test.py and all2all_embedding_test.py",
    "time_to_live": "tests/storage and tests/saving/checkpoint",
    "train": "distributed_optimizer_test.py and gradient_tape_test.py",
}
if "HOROVOD_RANK" not in os.environ:
    collect_ignore = [f"{name}_test.py" for name in ON_SEVERAL]


@pytest.fixture(name="folder")
def shared_folder(tmp_path):
    """A folder that all ranks see, and that stays until all are done."""
    yield pathlib.Path(broadcast_object(str(tmp_path), 0, "folder"))
    broadcast_object(None, 0, "done")
