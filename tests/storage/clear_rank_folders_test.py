"""Another number of ranks removes the tiers that killed ranks have left."""

import fcntl

import pytest

import keras_sparse
from keras_sparse.storage.clear_rank_folders import clear_rank_folders

pytestmark = pytest.mark.skipif("keras_sparse.distribute.size() > 1", reason="it is of one rank")


def leave(folder, marked=True):
    """Makes the files of a killed process that had a table there."""
    (folder / "keras_sparse-table-000000" / "ssdhash-0").mkdir(parents=True)
    (folder / "keras_sparse-table-000000" / "ssdhash-0" / "000000.seg").write_bytes(b"rows")
    (folder / "keras_sparse.lock").touch()
    if marked:
        (folder / "keras_sparse.own-000000").touch()


def test_tables_of_killed_ranks_are_removed_and_nothing_else(tmp_path):
    folder, elsewhere = tmp_path / "rows", tmp_path / "elsewhere"
    for name in ("rank-0-of-2", "rank-1-of-2", "rank-0-of-4", "rank-0-of-two", "copy"):
        leave(folder / name)
    leave(folder / "rank-2-of-3", marked=False)
    leave(elsewhere)
    (folder / "rank-5-of-6").symlink_to(elsewhere)
    (folder / "rank-1-of-2" / "notes").touch()
    with open(folder / "rank-0-of-4" / "keras_sparse.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as a running rank does
        storage = keras_sparse.StorageOption("DRAM_SSDHASH", folder, [1 << 16])
        keras_sparse.layers.Embedding(None, 4, storage=storage).build()
        left = {each.name for each in folder.iterdir() if each.name.startswith("rank")}
    assert left == {"rank-1-of-2", "rank-0-of-4", "rank-0-of-two", "rank-2-of-3", "rank-5-of-6"}
    assert [each.name for each in (folder / "rank-1-of-2").iterdir()] == ["notes"]
    for other in (folder / "rank-0-of-4", folder / "rank-0-of-two", folder / "copy", elsewhere):
        assert (other / "keras_sparse-table-000000" / "ssdhash-0" / "000000.seg").exists()
    assert (folder / "rank-2-of-3" / "keras_sparse-table-000000").exists()
    clear_rank_folders.cache_clear()
    clear_rank_folders(str(folder))  # of the next process: nobody has it locked now
    assert not (folder / "rank-0-of-4").exists()
