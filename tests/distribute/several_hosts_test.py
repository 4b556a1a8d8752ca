"""Hosts as a user has them: `horovodrun` with ssh, a line between them, and disks of their own."""

import contextlib
import re
import subprocess
import sys
import threading
import time

import pytest

from hosts import Hosts
from hosts import LOCAL_DISK
from hosts import NotPermittedError

pytestmark = pytest.mark.slow("starts processes")
LAUNCH = [sys.executable, "-m", "keras_sparse", "launch"]
SCRIPT = "tests/distribute/train_on_hosts.py"
SECONDS_A_STEP = 0.05
SECONDS_UNTIL_NOTICED = 90  # what nothing is heard of is gone after 30, says Horovod


@pytest.fixture
def hosts(tmp_path):
    folder = tmp_path / "hosts"
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        try:
            hosts = stack.enter_context(Hosts(folder))
        except NotPermittedError as error:
            pytest.skip(str(error))
        yield hosts


def train(hosts, *arguments, on=("alpha", "beta")):
    """Trains to the end; returns its loss."""
    status, printed = hosts.run(*hosts.horovodrun(SCRIPT, *arguments, hosts=on), seconds=300)
    assert status == 0, printed
    for rank, name in enumerate(on):
        assert f"rank {rank} of {len(on)} is on {name}" in printed
    return float(re.search(r"loss (\S+) after", printed)[1]), printed


def start_until_step(hosts, number, *arguments):
    """Starts training on both hosts; returns the process once this step is done."""
    training = hosts.start(*hosts.horovodrun(SCRIPT, *arguments, SECONDS_A_STEP))
    wait_for(training, rf"step {number}\b")
    return training


def wait_for(training, pattern):
    """Waits until a training prints a line."""
    limit = threading.Timer(300, training.kill)  # its output ends then
    limit.start()
    printed = []
    for line in training.stdout:
        printed.append(line)
        if re.search(pattern, line):
            limit.cancel()
            return
    pytest.fail("".join(printed))


def test_two_hosts_train_as_one_does(hosts, tmp_path):
    on_two, _ = train(hosts, tmp_path / "two", 20)
    on_one, _ = train(hosts, tmp_path / "one", 20, on=["alpha"])
    assert on_two == pytest.approx(on_one, abs=1e-5)


@pytest.mark.parametrize("is_silent", [False, True])
def test_one_host_goes_on_where_another_is_lost(hosts, is_silent, tmp_path):
    training = start_until_step(hosts, 25, tmp_path / "run", 2000)
    if is_silent:
        hosts.cut_off(1)
    hosts.kill(1)
    printed, _ = training.communicate(timeout=SECONDS_UNTIL_NOTICED)
    assert training.returncode != 0, printed
    on_one, printed = train(hosts, tmp_path / "run", 60, on=["alpha"])
    assert re.search("Resuming from step-0000000[2-9]0, epoch", printed)
    never_lost, _ = train(hosts, tmp_path / "whole", 60, on=["alpha"])
    assert on_one == pytest.approx(never_lost, abs=1e-5)


def test_launch_goes_on_without_a_host_and_uses_it_when_it_is_back(hosts, tmp_path):
    options = ["-H", "alpha:1,beta:1", "--min-ranks", 1, "--max-ranks", 2]
    training = hosts.start(*LAUNCH, *options, SCRIPT, tmp_path / "run", 800, SECONDS_A_STEP)
    wait_for(training, r"step 25\b")
    hosts.cut_off(1)
    wait_for(training, r"launch: .*: (beta no longer answers|rank 1 on beta could not be reached)")
    wait_for(training, r"launch: starting 1 rank on alpha:1")
    wait_for(training, r"rank 0 of 1 is on alpha")
    hosts.bring_back(1)
    wait_for(training, r"launch: .*: hosts have room for 2 ranks now")
    wait_for(training, r"rank 1 of 2 is on beta")
    printed, _ = training.communicate(timeout=300)
    assert training.returncode == 0, printed
    loss = float(re.search(r"loss (\S+) after 800", printed)[1])
    never_lost, _ = train(hosts, tmp_path / "whole", 800, on=["alpha"])
    assert loss == pytest.approx(never_lost, abs=1e-5)


def wait_until_no_rank_runs_on_beta(hosts):
    deadline = time.monotonic() + SECONDS_UNTIL_NOTICED
    while hosts.run("pgrep", "-f", "[t]rain_on_hosts", host=1)[0] == 0:
        assert time.monotonic() < deadline


def test_a_signal_to_launch_ends_ranks_on_all_hosts_in_order(hosts, tmp_path):
    options = ["-H", "alpha:1,beta:1"]
    training = hosts.start(*LAUNCH, *options, SCRIPT, tmp_path / "run", 2000, SECONDS_A_STEP)
    wait_for(training, r"step 25\b")
    hosts.run("pkill", "-TERM", "-f", r"^\S*python -m keras_sparse launch")
    printed, _ = training.communicate(timeout=60)
    assert training.returncode == 75, printed
    assert "Stopping after SIGTERM: saved" in printed
    wait_until_no_rank_runs_on_beta(hosts)


def test_ranks_end_when_the_host_of_launch_is_lost(hosts, tmp_path):
    training = hosts.start(*LAUNCH, "-H", "beta:1", SCRIPT, tmp_path / "run", 2000, SECONDS_A_STEP)
    wait_for(training, r"step 25\b")
    hosts.kill(0)
    wait_until_no_rank_runs_on_beta(hosts)
    training.communicate(timeout=60)


def test_a_folder_of_one_host_alone_is_refused_and_left_as_it_is(hosts):
    path = f"{LOCAL_DISK}/run"
    status, printed = hosts.run(*hosts.horovodrun(SCRIPT, path, 20))
    assert status != 0
    assert "All ranks must see the folder of a checkpoint" in printed
    train(hosts, path, 20, on=["alpha"])
    status, printed = hosts.run(*hosts.horovodrun(SCRIPT, path, 40))
    assert status != 0
    assert "All ranks must see the folder of checkpoints" in printed
    assert hosts.run("ls", path)[1].split() == ["step-000000010", "step-000000020"]


def test_a_copied_folder_goes_on_on_both(hosts, tmp_path):
    # A checkpoint is read where it lies: copied to each host, the next one is saved elsewhere.
    train(hosts, tmp_path / "run", 20)
    for host in (0, 1):
        assert hosts.run("cp", "-a", tmp_path / "run", f"{LOCAL_DISK}/run", host=host)[0] == 0
    subprocess.run(["rm", "-r", tmp_path / "run"], check=True)
    status, printed = hosts.run(*hosts.horovodrun(SCRIPT, f"{LOCAL_DISK}/run", 40))
    assert "Resuming from step-000000020, epoch 3" in printed
    assert status != 0
    assert "All ranks must see the folder of a checkpoint" in printed
