import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time

import pytest

from benchmarks import async_exchange
from benchmarks.slow_network import reason_against
from benchmarks.slow_network import run_ip
from benchmarks.slow_network import SlowNetwork
from benchmarks.slow_network import start_line
from benchmarks.timing import REPOSITORY
from ranks import needs_horovod
from stages import LIMIT
from stages import until_used

SMALL = ["--keys", "2000", "--rounds", "1", "--steps", "4", "--batch-size", "64"]
SMALL += ["--warm-steps", "8"]
COUNTS = {"used": 4, "missed": 1, "waited_ns": 3e6, "staleness_sum": 8, "staleness_max": 3}
PACKETS = socket.AF_UNIX, socket.SOCK_SEQPACKET
# The shortest of many round trips: a busy machine lets some take longer.
MEASURE = """
import contextlib, sys
from benchmarks.measure_network import answer, connect
is_first, times = sys.argv[2] == "0", [1.0]
with connect(sys.argv[1], is_first) as connection, contextlib.suppress(ConnectionError):
    while is_first or len(times) < 20 or (min(times) >= 0.04 and len(times) < 2000):
        times.append(answer(connection, bytearray(8), is_first))
print(1e3 * min(times))
"""


@pytest.fixture
def _is_permitted():
    reason = reason_against()
    if reason is not None:
        pytest.skip(reason)


def cells_of(text):
    return [re.split(r" *\| *", line)[1:-1] for line in text.splitlines() if line[:1] == "|"]


def test_a_row_tells_of_steps_of_the_slower_rank_and_of_staged_lookups_of_both():
    off = [([2.0, 8.0], COUNTS, 1e6), ([4.0, 6.0], COUNTS, 2e6)]
    stale = [([3.0, 1.0], COUNTS, 3e6), ([1.0, 1.0], COUNTS, 3e6)]
    text = async_exchange.table({"off": [off], "stale": [stale]}, megabits=120)
    rows = {row[0]: row[1:] for row in cells_of(text)}
    assert rows["off"] == ["6", "4, 2", "6", "1.00", "1.5", "100", "", "", "", ""]
    assert rows["stale"] == ["2", "1, 2", "2", "3.00", "3", "200", "8", "2", "1.5", "3, 2"]


def test_ways_can_be_chosen():
    assert async_exchange.parse([]).modes == ["off", "exact", "stale"]
    assert async_exchange.parse(["--modes", "stale,off"]).modes == ["stale", "off"]
    with pytest.raises(SystemExit):
        async_exchange.parse(["--modes", "fast"])


@pytest.mark.skipif(shutil.which("g++") is None, reason="the line is compiled when it is used")
def test_connections_take_turns_on_a_line():
    with contextlib.ExitStack() as stack:
        sockets = (*socket.socketpair(*PACKETS), *socket.socketpair(*PACKETS))
        sender, source, sink, receiver = map(stack.enter_context, sockets)
        for message in (b"a" * 1000, b"a" * 1000, b"b" * 500):
            sender.send(message)
        start = time.perf_counter()
        line = start_line([source.fileno(), sink.fileno()], megabits=0.08, milliseconds=100)
        stack.callback(line.communicate)
        received = [receiver.recv(1000)[:1] for _ in range(3)]
    assert received == [b"a", b"b", b"a"]
    assert time.perf_counter() - start >= 0.25 + 0.05


@pytest.mark.usefixtures("_is_permitted")
def test_a_network_is_as_slow_as_asked_for_and_leaves_nothing():
    with SlowNetwork(100, 20) as network:
        command = [sys.executable, "-c", MEASURE, network.addresses[0]]
        processes = [
            subprocess.Popen(
                [*network.inside(i), *command, str(i)],
                cwd=REPOSITORY,
                stdout=subprocess.PIPE,
                text=True,
            )
            for i in range(2)
        ]
        printed = [process.communicate(timeout=LIMIT)[0] for process in processes]
    assert 20 <= float(printed[1]) < 40
    assert not set(network.names) & set(run_ip("netns", "list").split())


def test_what_is_not_permitted_is_an_error_that_says_what_is_needed(monkeypatch):
    monkeypatch.setattr("benchmarks.slow_network.TUN", os.devnull)
    with pytest.raises(RuntimeError, match=r"needs Linux, root, .* Received:"), SlowNetwork(100, 1):
        pass


@needs_horovod
@pytest.mark.usefixtures("_is_permitted")
def test_two_ranks_exchange_over_the_network():
    def run(patience):
        num_steps = 4 + int(100 * patience.seconds)
        head, _, *rows = cells_of(async_exchange.main([*SMALL, "--steps", str(num_steps)]))
        off, *ahead = (dict(zip(head, row, strict=True)) for row in rows)
        assert [row["way"] for row in (off, *ahead)] == ["off", "exact", "stale"]
        assert all(0 < float(row["least"]) < float(row["step"]) for row in (off, *ahead))
        assert off["speed to off"] == "1.00"
        assert off["used"] == ""
        # On one thread a rank a step that waits for a round must leave it to the round's exchange.
        return all(row["used"] > "0" for row in ahead)

    until_used(run)
    assert not run_ip("netns", "list").count(f"slow-{os.getpid()}-")
