import pathlib
import re

import pytest

from ranks import needs_horovod
from ranks import run_ranks

# Its tests hold for any number of ranks: pytest runs them here too, on one.
RANKED = pathlib.Path(__file__).with_name("ranked")


# Who has what of a table and of a batch: on 2 ranks and on 3, which divides no size evenly.
PARTS = [
    "all2all_slots",
    "broadcast_variables",
    "collective_counts",
    "collectives",
    "distributed_embedding",
    "distributed_optimizer",
    "dynamic_options",
    "error_prefix",
    "exchange_errors",
    "exchange_order",
    "gradient_tape",
    "horovod",
    "layer_weights",
    "measure_cost_model",
    "row_limit",
    "shard",
    "table_parts",
    "together",
    "whole_batches",
]
# What is done with them holds on any number: on 3 where samples or files are divided, else on 2.
ON_3 = ["all2all_embedding", "checkpoint", "distributed_layer", "unused_table"]


def files(names):
    return [RANKED / f"{name}_test.py" for name in names]


@needs_horovod
@pytest.mark.parametrize(
    ("num_ranks", "tests"),
    [
        (2, sorted({*RANKED.glob("*_test.py")} - {*files(ON_3)})),
        (3, files([*PARTS, *ON_3])),
    ],
    ids=["2", "3"],
)
def test_passes_on_ranks(num_ranks, tests, tmp_path):
    # The first failure ends its rank, and Horovod then the others, which wait for it. Each rank has
    # a folder of its own: where pytests share one, each sweeps out what others left, at once.
    folder = ("--basetemp", tmp_path / "rank")
    pytest_options = ("-x", "-q", "-p", "no:cacheprovider", "--durations=5", *folder)
    status, printed = run_ranks(num_ranks, "-m", "pytest", *pytest_options, *tests, seconds=1500)
    assert status == 0, printed
    assert len(re.findall(r"\d passed[^\n]* in ", printed)) == num_ranks, printed
