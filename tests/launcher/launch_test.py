import json
import os
import pathlib
import re
import signal
import sys
import time

import psutil
import pytest

from ranks import needs_horovod

pytestmark = [pytest.mark.slow("starts processes"), needs_horovod]
RANK = pathlib.Path(__file__).with_name("scripted_rank.py")
SLEEP = ["sleep", "600"]


@pytest.fixture
def launch(launched, tmp_path):
    def start(plan, *options):
        """Starts a launcher whose ranks follow a plan, a word an attempt and rank."""
        logs = tmp_path / "logs"
        command = [sys.executable, RANK, logs, json.dumps(plan)]
        return launched(["--log-dir", logs, *options], command)

    return start


def test_a_training_that_ends_well_is_started_once(launch, tmp_path):
    launched = launch(["done"], "--ranks", 2)
    status, said = launched.end()
    assert status == 0
    assert said == [
        f"starting 2 ranks on localhost:2. Output: {tmp_path}/logs/attempt-001",
        "the training is done, after 1 start.",
    ]
    for rank in (0, 1):
        printed = (tmp_path / f"logs/attempt-001/rank-{rank}.log").read_text()
        assert printed == f"attempt 1, rank {rank} of 2: done\n"


@pytest.mark.parametrize(
    ("plan", "cause"),
    [
        (["waits", "killed"], "rank 1 on localhost was killed by SIGKILL"),
        (["killed saved", "killed"], "rank [01] on localhost was killed by SIGKILL"),
        (["waits saved", "ends 3"], "rank 1 on localhost ended with status 3"),
        (["waits saved", "fails no file"], "rank 1 on localhost failed: RuntimeError: no file"),
        (["waits saved", "ends 75"], "rank 1 on localhost was asked to stop by a signal"),
    ],
)
def test_ranks_start_again_when_one_is_lost(plan, cause, launch):
    launched = launch([plan, "done"], "--ranks", 2)
    status, said = launched.end()
    assert status == 0, launched.printed
    pause = "" if "ends 75" in plan else r" in \d s"
    step = "last checkpoint at step 6" if "saved" in plan[0] else "no checkpoint"
    again = rf"after \d+ s \(step 7, {step}\): {cause}\. Starting again{pause}\. Output: .*-001"
    assert re.fullmatch(again, said[1]), said
    assert said[2].startswith("starting 2 ranks")
    assert "[0]<stdout>:7/10 ..." in launched.printed


def test_ranks_start_again_when_no_step_comes(launch):
    launched = launch(["waits", "done"], "--ranks", 2, "--stall-seconds", 2, "--grace", 5)
    status, said = launched.end()
    assert status == 0, launched.printed
    assert "no step was made for 2 s" in said[1]


def test_ranks_go_on_when_the_disk_of_their_logs_is_full(launch):
    launched = launch(["full"], "--ranks", 2)
    status, _ = launched.end()
    assert status == 0
    assert launched.printed.count("a long line of text") == 40_000


@pytest.mark.parametrize(("word", "starts"), [("leaves", 2), ("leaves done", 1)])
def test_processes_that_ranks_have_started_end_with_them(word, starts, launch):
    status, said = launch([word, "done"], "--ranks", 2).end()
    assert status == 0
    assert sum(line.startswith("starting") for line in said) == starts
    assert not [each for each in psutil.process_iter(["cmdline"]) if each.info["cmdline"] == SLEEP]


def test_an_error_of_all_ranks_before_the_first_step_ends_it_the_second_time(launch):
    status, said = launch(["fails one", "fails other", "fails other"], "--ranks", 2).end()
    assert status == 1
    assert sum(line.startswith("starting") for line in said) == 3
    assert "twice, with the same error" in said[-2]
    assert said[-1].startswith("ended with status 1")


@pytest.mark.parametrize("word", ["ends 3", "mistyped"])
def test_a_status_of_all_ranks_before_the_first_step_ends_it_the_second_time(word, launch):
    launched = launch([word], "--ranks", 2)
    status, said = launched.end()
    assert status == 1
    assert sum(line.startswith("starting") for line in said) == 2
    if word == "mistyped":
        assert launched.printed.count("unrecognized arguments: --epoch") >= 3


def test_restarts_without_a_checkpoint_are_counted(launch):
    plan = [["late", "waits"], ["late saved", "waits"], ["late", "waits"], ["late", "waits"]]
    launched = launch(plan, "--ranks", 2, "--max-restarts", 1)
    status, said = launched.end()
    assert status == 1, launched.printed
    assert sum(line.startswith("starting") for line in said) == 4, launched.printed
    assert "Ended with status 1, after 1 restarts without a checkpoint" in said[-1]


@pytest.mark.parametrize(
    ("word", "number", "status"),
    [
        ("waits", signal.SIGTERM, 143),
        ("waits", signal.SIGINT, 130),
        ("saves 1", signal.SIGTERM, 75),
    ],
)
def test_a_signal_ends_all_ranks_in_order(word, number, status, launch):
    launched = launch([word], "--ranks", 2)
    launched.wait_for_ranks(2)
    launched.process.send_signal(number)
    assert launched.end()[0] == status
    assert not launched.ranks()
    launched.process.wait()


def test_ranks_that_do_not_end_are_killed_after_the_grace_or_by_a_second_signal(launch):
    launched = launch(["saves 600"], "--ranks", 2, "--grace", 600)
    launched.wait_for_ranks(2)
    begin = time.monotonic()
    launched.process.terminate()
    time.sleep(1)
    assert len(launched.ranks()) == 2
    launched.process.terminate()
    assert launched.end()[0] == 143
    assert time.monotonic() - begin < 60
    assert not launched.ranks()


def test_a_signal_reaches_ranks_that_start_only_then(launch):
    launched = launch(["saves 0"], "--ranks", 2)
    launched.wait_for("launch: starting")
    launched.process.terminate()
    status, _ = launched.end()
    assert status in (75, 143), launched.printed  # 143 if no rank had begun
    assert not launched.ranks()


def test_ranks_end_when_the_launcher_is_killed(launch):
    launched = launch(["waits", "done"], "--ranks", 2)
    launched.wait_for_ranks(2)
    ranks = launched.ranks()
    assert len(ranks) == 2
    launched.process.kill()
    _, alive = psutil.wait_procs(ranks, timeout=60)
    assert not alive


def hosts_script(folder, slots):
    """A program that prints this number of slots; `None` lets it fail."""
    script = folder / "hosts.sh"
    text = "exit 3" if slots is None else f"echo localhost:{slots}"
    replaced = folder / "hosts.new"
    replaced.write_text(f"#!/bin/sh\n{text}\n")
    replaced.chmod(0o755)
    os.replace(replaced, script)
    return script


def test_ranks_are_as_many_as_hosts_have_room_for(launch, tmp_path):
    script = hosts_script(tmp_path, 3)
    plan = [["waits saved", "waits", "killed"], ["waits saved", "killed"], "waits saved", "done"]
    launched = launch(plan, "--ranks", 3, "--min-ranks", 2, "--hosts-script", script)
    launched.wait_for("starting 3 ranks on localhost:3")
    hosts_script(tmp_path, 2)
    launched.wait_for("starting 2 ranks on localhost:2")
    hosts_script(tmp_path, 1)
    launched.wait_for("localhost:1 answers. Waiting for hosts for 2 ranks")
    hosts_script(tmp_path, None)
    time.sleep(1)
    hosts_script(tmp_path, 4)
    launched.wait_for("starting 3 ranks on localhost:3")
    launched.process.terminate()
    assert launched.end()[0] == 143


def test_more_hosts_are_used_at_the_next_checkpoint(launch, tmp_path):
    script = hosts_script(tmp_path, 2)
    options = ("--ranks", 2, "--max-ranks", 3, "--hosts-script", script, "--max-restarts", 0)
    launched = launch(["waits saved", "done"], *options)
    launched.wait_for("starting 2 ranks")
    hosts_script(tmp_path, 3)
    status, said = launched.end()
    assert status == 0
    assert "hosts have room for 3 ranks now" in said[1]
    assert said[2].startswith("starting 3 ranks")
