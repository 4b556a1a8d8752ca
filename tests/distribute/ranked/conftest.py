import os
import pathlib

import pytest

from keras_sparse.distribute.ranks.collectives import broadcast_object

# Tests of one process say the same of one rank. On several ranks all files run.
ON_SEVERAL = [
    "accumulation",
    "all2all_embedding",
    "checkpoint",
    "exchange_order",
    "finite_steps",
    "group_embedding",
    "grown_tables",
    "integer_lookup",
    "metric_average",
    "model_parallel_inputs",
    "multi_optimizer",
    "occurrences",
    "one_file",
    "output_mode",
    "prefetch_faults",
    "prefetch_lookups",
    "prefetch_staleness",
    "regularizer",
    "row_dtype",
    "row_limit",
    "saved_model",
    "table_parts",
    "time_to_live",
    "train",
    "unknown_end",
]
if "HOROVOD_RANK" in os.environ:
    # Tables are small, and cores as many as ranks or fewer. Ops of a step run at once all the same.
    os.environ["TF_NUM_INTRAOP_THREADS"] = "1"
else:
    collect_ignore = [f"{name}_test.py" for name in ON_SEVERAL]


@pytest.fixture(name="folder")
def shared_folder(tmp_path):
    """A folder that all ranks see, and that stays until all are done."""
    yield pathlib.Path(broadcast_object(str(tmp_path), 0, "folder"))
    broadcast_object(None, 0, "done")
