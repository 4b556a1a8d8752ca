"""Training ends early, and another number of ranks resumes it with the next batch of all ranks."""

import pathlib

import h5py
import pytest

import resuming_ranks
from ranks import needs_horovod
from ranks import run_ranks
from resuming_ranks import CASES

pytestmark = pytest.mark.slow("three ranks")
SCRIPT = pathlib.Path(resuming_ranks.__file__)


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
    if case.first_end not in DAMAGES:
        return False
    last = max(folder.glob("step-*"))
    # The file that no other checkpoint has a link to.
    (own,) = (
        path
        for path in last.glob(f"rank-{case.ranks[0] - 1}/rows-*.h5")
        if path.stat().st_nlink == 1
    )
    # A flipped byte is found as all is read, which `first_batch` does not do.
    is_seen_at_once = case.first_end != "flipped byte" or case.skips
    (DAMAGES[case.first_end] if is_seen_at_once else cut)(own)
    return True


@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # Keras', of an unknown length
@needs_horovod
@pytest.mark.skipif("resuming_ranks.ksd.size() > 1", reason="it starts ranks itself")
def test_another_number_of_ranks_goes_on_with_the_next_batch(tmp_path):
    for number in range(len(CASES)):
        (tmp_path / str(number)).mkdir()
        resuming_ranks.never_stop(tmp_path / str(number), number)
    for stage in range(3):
        for num_ranks in (3, 2, 1):
            of_ranks = [i for i, case in enumerate(CASES) if case.ranks[stage] == num_ranks]
            if not of_ranks:
                continue
            status, printed = run_ranks(num_ranks, SCRIPT, tmp_path, stage, *of_ranks)
            assert (status, printed.count('"done"')) == (0, len(of_ranks)), printed
        if stage == 0:
            damaged = [i for i, case in enumerate(CASES) if damage(case, tmp_path / f"{i}/run")]
    for i in range(len(CASES)):
        aside = sorted(each.name for each in (tmp_path / f"{i}/run").glob("*.damaged"))
        assert len(aside) == (i in damaged), (i, aside)
