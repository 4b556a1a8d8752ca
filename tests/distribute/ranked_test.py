import pathlib
import re

import pytest

from ranks import needs_horovod
from ranks import run_ranks

# Its tests hold for any number of ranks: pytest runs them here too, on one, where that says more.
RANKED = pathlib.Path(__file__).with_name("ranked")


# On 2 ranks and on 3: what these divide does it evenly on 2, and is small.
PARTS = [
    "distributed_embedding",
    "error_prefix",
    "gradient_tape",
    "horovod",
    "shard",
    "shared_errors",
]
# Who has what of a table, a batch or a file: on 3, which divide no size evenly and of which one is
# neither the first nor the last. What all others hold is the same on any number: on 2.
ON_3 = [
    "all2all_embedding",
    "all2all_slots",
    "checkpoint",
    "collectives",
    "distributed_layer",
    "distributed_optimizer",
    "dynamic_options",
    "exchange_errors",
    "keys_of_ranks",
    "whole_tables",
    "table_parts",
    "unused_table",
    "model_parallel_inputs",
    "output_mode",
    "row_limit",
]


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
    # The first failure ends its rank, and Horovod then the others, which wait for it.
    folder = ("--basetemp", tmp_path / "rank")
    pytest_options = ("-x", "-q", "-p", "no:cacheprovider", "--durations=5", *folder)
    status, printed = run_ranks(num_ranks, "-m", "pytest", *pytest_options, *tests, seconds=5000)
    assert status == 0, printed
    assert len(re.findall(r"\d passed[^\n]* in ", printed)) == num_ranks, printed
