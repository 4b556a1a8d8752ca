import pathlib

import pytest

from ranks import needs_horovod
from ranks import run_ranks

# Its tests hold for any number of ranks: pytest runs them here too, on one.
RANKED = pathlib.Path(__file__).with_name("ranked")


@needs_horovod
@pytest.mark.parametrize("num_ranks", [2, 3, 4])
def test_passes_on_ranks(num_ranks):
    # The first failure ends its rank, and Horovod then the others, which wait for it.
    pytest_options = ("-x", "-q", "-p", "no:cacheprovider", "--durations=5")
    status, printed = run_ranks(num_ranks, "-m", "pytest", *pytest_options, RANKED, seconds=900)
    assert status == 0, printed
    assert printed.count(" passed in ") == num_ranks, printed
