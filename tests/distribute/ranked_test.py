import pathlib
import re

import pytest

from ranks import needs_horovod
from ranks import run_ranks

# Its tests hold for any number of ranks: pytest runs them here too, on one, where that says more.
RANKED = pathlib.Path(__file__).with_name("ranked")

# Ranks train what one rank does, save it, and have each other's errors.
ESSENTIAL = ["checkpoint", "distributed_embedding", "exchange_errors", "rank_errors", "train"]
# These ask who has what of a table or a batch. They run on 3 ranks, which divide no size evenly and
# of which one is neither the first nor the last. The others run on 2.
ON_3 = [
    "all2all_embedding",
    "collectives",
    "distributed_layer",
    "distributed_table",
    "dynamic_options",
    "gradient_tape",
    "model_parallel_inputs",
    "shard",
    "table_parts",
    "whole_tables",
]
# Most of its cases are on one of the numbers.
ON_2_AND_3 = ["distributed_embedding"]


def files(names):
    return {RANKED / f"{name}_test.py" for name in names}


@needs_horovod
@pytest.mark.parametrize(
    ("num_ranks", "tests"),
    [
        pytest.param(2, files(ESSENTIAL), id="essential"),
        pytest.param(
            2,
            {*RANKED.glob("*_test.py")} - files([*ESSENTIAL, *ON_3]),
            id="2",
            marks=pytest.mark.slow("starts processes"),
        ),
        pytest.param(3, files([*ON_3, *ON_2_AND_3]), id="3", marks=pytest.mark.slow("three ranks")),
    ],
)
def test_passes_on_ranks(num_ranks, tests, tmp_path):
    # The first failure ends its rank, and Horovod then the others, which wait for it.
    folder = ("--basetemp", tmp_path / "rank")
    options = ("-x", "-q", "-p", "no:cacheprovider", "--durations=5", *folder)
    arguments = ("-m", "pytest", *options, *sorted(tests))
    status, printed = run_ranks(num_ranks, *arguments, seconds=5000)
    assert status == 0, printed
    assert len(re.findall(r"\d passed[^\n]* in ", printed)) == num_ranks, printed
