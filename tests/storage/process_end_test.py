"""What a process that uses tiers leaves behind, however it ends, and what the next one finds."""

import gc
import os
import re
import signal
import subprocess

import pytest
import tensorflow as tf

import forks
from table_twins import KINDS
from table_twins import small
from table_twins import Twins

pytestmark = pytest.mark.slow("starts processes")
TIMEOUT = 900  # seconds; a machine may have much else to do
TRAIN = """
import os, signal, sys, time
from table_twins import small, Twins
def wait(child, what):
    deadline = time.monotonic() + 300
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            sys.exit(f"a child hangs with {what}")
        time.sleep(0.05)
all_twins = [Twins(small(f"{sys.argv[1]}/{kind}", kind)) for kind in sys.argv[2:]]
for each in all_twins:
    each.train_some(10)
    each.wait_until_written()
print("trained", os.getpid(), flush=True)
"""
FORK = """
import gc
for ending in ("sys.exit", "os._exit", "collect"):
    child = os.fork()
    if child == 0:
        if ending == "collect":
            del all_twins, each
            gc.collect()
        if ending == "os._exit":
            os._exit(0)
        sys.exit(0)
    wait(child, ending)
    for each in all_twins:
        each.train_some(10)
        each.check()
    print(ending, flush=True)
"""

FORK_AND_OPEN = """
import gc
for kind in sys.argv[2:]:
    child = os.fork()
    if child == 0:
        own = Twins(small(f"{sys.argv[1]}/own/{kind}", kind))
        own.train_some(30)
        own.check()
        del own
        gc.collect()
        print(kind, os.listdir(f"{sys.argv[1]}/own"), flush=True)
        os._exit(0)
    wait(child, kind)
"""


@pytest.fixture
def start(tmp_path):
    """Starts processes that train tables below `tmp_path`; none outlives the test."""
    started = []

    def start(script, *kinds):
        process = subprocess.Popen(
            [*forks.python(), "-c", TRAIN + script, str(tmp_path), *kinds],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        said, _, number = process.stdout.readline().partition(" ")
        assert said == "trained", process.communicate()[1]
        process.number = int(number)  # of the one that trains, which `process` waits for
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def files_in(folder):
    return [each for each in folder.rglob("*") if each.is_file()]


def mark(folder):
    """Puts a file to what is left there."""
    left = {each.name for each in folder.iterdir()}
    assert left == {"keras_sparse.lock", "keras_sparse.own-000000", "keras_sparse-table-000000"}
    table = folder / "keras_sparse-table-000000"
    assert files_in(table)
    (table / "left").touch()


def works_in(folder, kind):
    """The next process has the folder for itself, and leaves nothing in it."""
    (left,) = folder.rglob("left")
    twins = Twins(small(folder, kind))
    assert not left.exists()
    twins.train_some(10)
    twins.check()
    del twins
    gc.collect()
    assert list(folder.iterdir()) == []


def test_the_next_process_clears_what_one_killed_while_it_trained_has_left(start, tmp_path):
    script = """
while True:
    for each in all_twins:
        each.train_some(1)
    print("step", flush=True)
"""
    process = start(script, *KINDS)
    for _ in range(5):
        assert process.stdout.readline() == "step\n"
    os.kill(process.number, signal.SIGKILL)
    process.wait()
    for kind in KINDS:
        mark(tmp_path / kind)
        works_in(tmp_path / kind, kind)


@pytest.mark.parametrize(
    ("ending", "codes"),
    [
        ("sys.exit(0)", {0}),
        ("sys.exit(3)", {3}),
        ("os.kill(os.getpid(), signal.SIGINT)", {1, -signal.SIGINT}),
    ],
)
def test_a_process_that_ends_itself_leaves_nothing(ending, codes, start, tmp_path):
    # A shell lets what it runs in the background ignore Ctrl-C, and so its children.
    hears = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    process = start(f"{hears}; all_twins[0].train_some(3); {ending}; time.sleep(900)", *KINDS)
    _, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode in codes
    assert list(tmp_path.iterdir()) == [], err


@pytest.mark.parametrize("ending", ["os._exit(3)", "os.kill(os.getpid(), signal.SIGTERM)"])
def test_a_process_that_is_ended_leaves_files_to_the_next_one(ending, start, tmp_path):
    process = start(f"{ending}; time.sleep(900)", "DRAM_SSDHASH")
    process.communicate(timeout=TIMEOUT)
    assert process.returncode in (3, -signal.SIGTERM)
    mark(tmp_path / "DRAM_SSDHASH")
    works_in(tmp_path / "DRAM_SSDHASH", "DRAM_SSDHASH")


def test_a_folder_is_free_once_the_other_process_has_ended(start, tmp_path):
    process = start("sys.stdin.read()", "DRAM_SSDHASH")
    path = tmp_path / "DRAM_SSDHASH"
    words = (
        f"'{re.escape(str(path))}/keras_sparse.lock' must be held by one process, and another has "
        "it; give each process a folder of its own"
    )
    before = set(files_in(path))
    with pytest.raises(tf.errors.FailedPreconditionError, match=words):
        Twins(small(path))
    assert set(files_in(path)) == before
    process.communicate(timeout=TIMEOUT)
    twins = Twins(small(path))
    twins.train_some(5)
    twins.check()


def test_forked_children_have_tables_of_their_own_and_leave_their_parents_alone(start, tmp_path):
    (tmp_path / "own").mkdir()
    process = start(f"{FORK_AND_OPEN}\nos.rmdir(f'{{sys.argv[1]}}/own')\n{FORK}", *KINDS)
    out, err = process.communicate(timeout=TIMEOUT)
    said = [*(f"{kind} []" for kind in KINDS), "sys.exit", "os._exit", "collect"]
    assert (out.splitlines(), process.returncode) == (said, 0), err
    assert list(tmp_path.iterdir()) == []
