"""Training ends early, and another number of ranks resumes it with the next batch of all ranks."""

import json
import os
import pathlib

import h5py
import pytest

import small_disks
from pairwise import pairwise
from ranks import needs_horovod
from ranks import run_ranks

pytestmark = pytest.mark.slow("three ranks")
SCRIPT = pathlib.Path(__file__).with_name("resuming_ranks.py")
FIRST_ENDS = ["killed", "flipped byte", "cut file", "missing file", "full disk"]
OPTIONS = {  # as `Case` of the script has them
    "ranks": [(3, 2, 3), (2, 1, 2)],
    "saves": ["steps", "epochs", "deltas"],
    "steps_an_update": [None, 3],
    "is_ahead": [False, True],
    "is_uneven": [True, False],
    "goes_on": [True, False],
    "skips": [True, False],
    "per_execution": [1, 2],
}
CASES = [
    {**dict(zip(OPTIONS, each, strict=True)), "first_end": FIRST_ENDS[i % len(FIRST_ENDS)]}
    for i, each in enumerate(pairwise(**OPTIONS))
]


def flip(path):
    """Changes a bit of the largest array."""
    places = []

    def look(_, item):
        if isinstance(item, h5py.Dataset) and item.id.get_offset():
            places.append((item.size, item.id.get_offset()))

    with h5py.File(path) as file:
        file.visititems(look)
    data = bytearray(path.read_bytes())
    data[max(places)[1]] ^= 1
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[:-8])


DAMAGES = {"flipped byte": flip, "cut file": cut, "missing file": pathlib.Path.unlink}


def damage(case, folder):
    """Damages what the last rank has saved last, and returns whether anything is."""
    if case["first_end"] not in DAMAGES:
        return False
    last = max(folder.glob("step-*"))
    # The file that no other checkpoint has a link to.
    (own,) = (
        path
        for path in last.glob(f"rank-{case['ranks'][0] - 1}/rows-*.h5")
        if path.stat().st_nlink == 1
    )
    # A flipped byte is found as all is read, which `first_batch` does not do.
    is_seen_at_once = case["first_end"] != "flipped byte" or case["skips"]
    (DAMAGES[case["first_end"]] if is_seen_at_once else cut)(own)
    return True


@needs_horovod
def test_another_number_of_ranks_goes_on_with_the_next_batch(tmp_path, monkeypatch):
    support = pathlib.Path(small_disks.__file__).parent
    monkeypatch.setenv("PYTHONPATH", str(support), prepend=os.pathsep)

    def run(num_ranks, stage, numbers):
        cases = [json.dumps([i, list(CASES[i].values())]) for i in numbers]
        status, printed = run_ranks(num_ranks, SCRIPT, tmp_path, stage, *cases)
        assert (status, printed.count("done")) == (0, len(cases)), printed

    for i in range(len(CASES)):
        (tmp_path / str(i)).mkdir()
    run(1, "whole", range(len(CASES)))
    for stage in range(3):
        for num_ranks in (3, 2, 1):
            numbers = [i for i, case in enumerate(CASES) if case["ranks"][stage] == num_ranks]
            if numbers:
                run(num_ranks, stage, numbers)
        if stage == 0:
            damaged = [i for i, case in enumerate(CASES) if damage(case, tmp_path / f"{i}/run")]
    for i in range(len(CASES)):
        aside = sorted(each.name for each in (tmp_path / f"{i}/run").glob("*.damaged"))
        assert len(aside) == (i in damaged), (i, aside)
