"""Folders that a file from elsewhere may name for the tiers of its tables."""

import os

from keras.src.saving import serialization_lib  # nothing public tells of `safe_mode`

VARIABLE = "KERAS_SPARSE_STORAGE_PATHS"

# Those that this program has named itself: the texts, and what they led to at that time.
_own_paths: set[str] = set()


def remember_own(path):
    """Lets files name this path, too: a `StorageOption` of the program has it."""
    _own_paths.update((path, os.path.realpath(path)))


def check_of_file(path):
    """Raises ValueError if a file that is being loaded names a path that the program does not.

    Keras loads in safe mode unless it is asked not to. To it that is also what a program makes of a
    config of its own, by `from_config`: its paths are the program's, wherever it works by then.
    """
    if not serialization_lib.in_safe_mode():
        return
    real = os.path.realpath(path)
    allowed = [os.path.realpath(each) for each in _allowed_folders()]
    if path in _own_paths or real in _own_paths:
        return
    if any(os.path.commonpath((real, each)) == each for each in allowed):
        return
    raise ValueError(
        "The `storage_path` of a model that is loaded from a file must be one that this program "
        "agrees to, as files are made there. Make a keras_sparse.StorageOption with this path "
        f"before, or set {VARIABLE} to a folder that it is in, or load what you trust with "
        f"`safe_mode=False`. Received: storage_path={path!r}"
    )


def _allowed_folders():
    value = os.environ.get(VARIABLE, "")
    return [os.path.expanduser(each) for each in value.split(os.pathsep) if each]
