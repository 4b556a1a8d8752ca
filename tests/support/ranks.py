"""Runs scripts and tests on several ranks."""

import contextlib
import importlib.util
import os
import pathlib
import subprocess
import sys
import sysconfig

import pytest

import forks

HOROVODRUN = [pathlib.Path(sysconfig.get_path("scripts")) / "horovodrun"]
# The same without its first question, whether Gloo was built: that takes a process that imports
# TensorFlow, for three seconds.
QUICK_HOROVODRUN = """
from horovod.runner import launch
launch.gloo_built = lambda verbose=False: True
launch.run_commandline()
"""

# Where CI runs, Horovod is installed by `make test`: not to find it there is a failure.
needs_horovod = pytest.mark.skipif(
    importlib.util.find_spec("horovod") is None and not os.environ.get("CI"),
    reason="Horovod is not installed; tools/install_horovod.py does it",
)


def run_ranks(num_ranks, *arguments, seconds=600, launcher=None, fresh=False):
    """Runs Python with these arguments on every rank: the exit status and what they printed.

    After so many seconds they hang, on a machine that may have much else to do. Where a launcher is
    given, or the environment must be read by the libraries that ranks load, each is `fresh`.
    """
    python = [sys.executable] if fresh or launcher else forks.python()
    # A rank that waits looks for messages every 5 ms. By default it is each millisecond, which is a
    # third of the work where ranks are more than cores.
    command = [
        *(launcher or [*python, "-c", QUICK_HOROVODRUN]),
        "--gloo",
        "--disable-cache",
        "--cycle-time-ms",
        "5",
        "--start-timeout",
        str(seconds),
        "--gloo-timeout-seconds",
        str(seconds),
        "-np",
        str(num_ranks),
    ]
    ranks = subprocess.Popen(
        [*command, *python, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        printed, _ = ranks.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        ranks.terminate()  # it ends its ranks
        printed, _ = ranks.communicate()
        pytest.fail(f"{num_ranks} ranks hung for {seconds} s. They printed\n{printed}")
    return ranks.returncode, printed


@contextlib.contextmanager
def ranks_by_themselves(num_ranks, folder, *arguments):
    """Starts ranks as `horovodrun --gloo` does, but leaves each to itself.

    Yields a list of their processes. Each prints to the file of its number in `folder`.
    """
    from horovod.runner.common.util.hosts import get_host_assignments
    from horovod.runner.common.util.hosts import parse_hosts
    from horovod.runner.gloo_run import create_run_env_vars
    from horovod.runner.gloo_run import create_slot_env_vars
    from horovod.runner.http.http_server import RendezvousServer

    server = RendezvousServer()
    slots = get_host_assignments(parse_hosts(f"localhost:{num_ranks}"), num_ranks)
    common = create_run_env_vars("127.0.0.1", ["lo"], server.start())
    common["HOROVOD_GLOO_TIMEOUT_SECONDS"] = 600  # on a machine that may have much else to do
    server.init(slots)
    ranks: list[subprocess.Popen] = []
    try:
        for slot in slots:
            added = {**common, **create_slot_env_vars(slot)}
            environment = {**os.environ, **{name: str(value) for name, value in added.items()}}
            with open(folder / str(slot.rank), "w") as printed:
                ranks.append(
                    subprocess.Popen(
                        [sys.executable, *map(str, arguments)],
                        env=environment,
                        stdout=printed,
                        stderr=subprocess.STDOUT,
                    )
                )
        yield ranks
    finally:
        for rank in ranks:
            rank.kill()
        server.stop()
        server._httpd.server_close()  # which `stop` leaves out
