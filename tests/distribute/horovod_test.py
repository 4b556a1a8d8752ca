import importlib.util
import os
import pathlib
import subprocess
import sys
import sysconfig

import pytest

# Where CI runs, Horovod is installed by `make test`: not to find it there is a failure.
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("horovod") is None and not os.environ.get("CI"),
    reason="Horovod is not installed; tools/install_horovod.py does it",
)

HOROVODRUN = pathlib.Path(sysconfig.get_path("scripts")) / "horovodrun"
COLLECTIVES = pathlib.Path(__file__).with_name("collectives.py")
SECONDS = 90  # takes under 10 where nothing hangs


def run_ranks(num_ranks, script):
    """Runs the script on every rank, and returns the exit status and what they printed."""
    command = [HOROVODRUN, "--gloo", "--disable-cache", "-np", str(num_ranks)]
    ranks = subprocess.Popen(
        [*command, sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        printed, _ = ranks.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        ranks.terminate()  # it ends its ranks
        printed, _ = ranks.communicate()
        pytest.fail(f"{num_ranks} ranks hung for {SECONDS} s. They printed\n{printed}")
    return ranks.returncode, printed


@pytest.mark.parametrize("num_ranks", [2, 3])
def test_collectives_work_in_a_tf_function(num_ranks):
    status, printed = run_ranks(num_ranks, COLLECTIVES)
    assert status == 0, printed
    for rank in range(num_ranks):
        assert f"rank {rank} of {num_ranks} passed" in printed
