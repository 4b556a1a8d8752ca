import pathlib
import re

import pytest

from ranks import needs_horovod
from ranks import run_ranks

# Its tests hold for any number of ranks: pytest runs them here too, on one.
RANKED = pathlib.Path(__file__).with_name("ranked")


# On 3 ranks all of them, as 3 divides no size evenly; what depends on who has what of a table on 2
# and 4 as well, and what goes on between steps on 2, the fewest.
PLACEMENTS = [
    RANKED / name
    for name in ("horovod_test.py", "collectives_test.py", "distributed_embedding_test.py")
]
BETWEEN_STEPS = [
    RANKED / name
    for name in ("prefetch_lookups_test.py", "prefetch_tiers_test.py", "row_limit_test.py")
]


@needs_horovod
@pytest.mark.parametrize(
    ("num_ranks", "tests"),
    [(2, [*PLACEMENTS, *BETWEEN_STEPS]), (3, [RANKED]), (4, PLACEMENTS)],
)
def test_passes_on_ranks(num_ranks, tests, tmp_path):
    # The first failure ends its rank, and Horovod then the others, which wait for it. Each rank has
    # a folder of its own: where pytests share one, each sweeps out what others left, at once.
    folder = ("--basetemp", tmp_path / "rank")
    pytest_options = ("-x", "-q", "-p", "no:cacheprovider", "--durations=5", *folder)
    status, printed = run_ranks(num_ranks, "-m", "pytest", *pytest_options, *tests, seconds=1500)
    assert status == 0, printed
    assert len(re.findall(r"\d passed[^\n]* in ", printed)) == num_ranks, printed
