import contextlib
import fcntl
import functools
import os
import pathlib
import re
import shutil

from keras_sparse.distribute.ranks.runtime import size

# The names that ops/core/files/storage_folder.cc gives to files and folders.
_LOCK = "keras_sparse.lock"
_MARKER = re.compile(r"keras_sparse\.own-(\d+)")
_TABLE = "keras_sparse-table-"
_RANK_FOLDER = re.compile(r"rank-\d+-of-(\d+)")


@functools.cache
def clear_rank_folders(storage_path):
    """Removes the tables that killed ranks left in folders of another number of ranks.

    A process clears its own folder as it makes its first table there. No process of a training with
    another number of ranks has the folders of the killed ones, which would fill the disk. Folders
    that a process uses, and files that no table made, stay.

    Args:
        storage_path: String. Path of the folder that all ranks were given.
    """
    folder = pathlib.Path(storage_path)
    # A folder that cannot be cleared now is left to its next process.
    if size() > 1:
        with contextlib.suppress(OSError):
            _clear_unless_locked(folder)
    others = []
    with contextlib.suppress(OSError):
        others = sorted(folder.iterdir())
    for path in others:
        match = _RANK_FOLDER.fullmatch(path.name)
        # The ranks of this training clear those of their own number themselves.
        if match and int(match[1]) != size() and not path.is_symlink():
            with contextlib.suppress(OSError):
                _clear_unless_locked(path)
                path.rmdir()  # unless it has files of somebody else


def _clear_unless_locked(folder):
    lock = folder / _LOCK
    descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The last holder may have removed the file since it was opened.
        if not os.path.samestat(os.fstat(descriptor), os.stat(lock)):
            return
        for marker in sorted(folder.iterdir()):
            if match := _MARKER.fullmatch(marker.name):
                with contextlib.suppress(FileNotFoundError):
                    shutil.rmtree(folder / f"{_TABLE}{match[1]}")
                marker.unlink()
        lock.unlink()
    finally:
        os.close(descriptor)
