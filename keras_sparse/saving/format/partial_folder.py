"""Folders of what is not whole yet, which the next process removes if this one is killed.

That of a checkpoint gets its name when it is whole; that of a file is gone by then.
"""

import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import uuid

from keras_sparse.saving.format.folder_files import sync
from keras_sparse.utils import checks

_PARTIAL_NAME = re.compile(r"\.(.+)\.[0-9a-f]{16}\.partial")


def prepare(path):
    """Makes a place for a checkpoint, and returns the folders in which names change."""
    if path.exists():
        raise FileExistsError(
            "`path` must be new: a checkpoint takes no other's place, so that there is always a "
            f"whole one. Remove it first, or choose another name. Received: path='{path}'"
        )
    checks.folder(path.parent, "path")
    new_folders = [each for each in path.parents if not each.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    return {path.parent, *(new.parent for new in new_folders)}


def partial_path(path, checkpoint_id):
    """Returns the path that a checkpoint has until it is whole, and while it is removed."""
    return path.with_name(f".{path.name}.{checkpoint_id}.partial")


def remove_partial(folder, names):
    """Removes what killed processes have left, on a file system with locks.

    Args:
        folder: Path of the folder that they were written in.
        names: Pattern of their names.
    """
    for path in pathlib.Path(folder).iterdir():
        match = _PARTIAL_NAME.fullmatch(path.name)
        if match and names.fullmatch(match[1]):
            _remove_unless_locked(path)


def _remove_unless_locked(folder):
    # After an error the folder stays: it is locked, or has just gone, or cannot be looked at.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)  # no pipe, which would wait
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another process may have removed it, and its owner have made it anew, since it was
            # opened: the lock is that of the old one then.
            if _is_at(descriptor, folder):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def passing_folder(path, partial_id=None):
    """Yields a new folder beside a path, which goes at the end unless it has another name by then.

    If this process is killed, it goes when the next folder is made beside this path.

    Args:
        path: `pathlib.Path`.
        partial_id: String, as `uuid.uuid4().hex[:16]` gives one, which is the default.
    """
    remove_partial(path.parent, re.compile(re.escape(path.name)))
    folder = partial_path(path, partial_id or uuid.uuid4().hex[:16])
    descriptor = _make_locked(folder)
    try:
        yield folder
    finally:
        if folder.exists():
            shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _make_locked(folder):
    """Makes a folder, and returns a descriptor that has it locked until it is closed."""
    while True:
        folder.mkdir()
        try:
            descriptor = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:  # before it is locked, another process may take it for left
            continue
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_at(descriptor, folder):
            return descriptor
        os.close(descriptor)


def _is_at(descriptor, folder):
    """Returns whether an open folder still is the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(folder))
    except FileNotFoundError:
        return False


def sync_files(folder):
    """Sees to it that the files are on disk before the folder gets its name."""
    for path in folder.iterdir():
        sync(path)
    sync(folder)


def rename(folder, path, parents):
    """Gives a folder its name, and sees to it that names are on disk; if it fails, it has not."""
    folder.rename(path)
    try:
        for each in parents:
            sync(each)
    except BaseException:
        path.rename(folder)
        raise
