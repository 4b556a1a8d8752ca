"""The files of a checkpoint's folder, which may come from elsewhere."""

import os
import stat
import zlib

from keras_sparse.saving.format.damage_error import CheckpointDamagedError
from keras_sparse.utils import checks

_PIECE_BYTES = 1 << 20


def is_plain_name(name):
    """Returns whether this names a file in the folder that it is put behind, whatever that is."""
    return isinstance(name, str) and name not in ("", ".", "..") and not set("/\0") & set(name)


def refuse_link(path):
    """Raises ValueError if this is a link: it may lead out of its folder."""
    if os.path.islink(path):
        raise ValueError(
            "A checkpoint's files must lie in its folder, as no links are followed. Copy what they "
            f"lead to into their place (`cp -rL`). Received: {path}, which is a link"
        )


def size_of(path):
    """Returns the bytes of a file, or `None` if there is none.

    Raises:
        ValueError: It is a link.
        OSError: The system does not say.
    """
    refuse_link(path)
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def crc32_of(path):
    """Returns the CRC-32 of a file, without taking its size in memory."""
    checksum = 0
    with open(checks.regular_file(path), "rb") as file:
        while piece := file.read(_PIECE_BYTES):
            checksum = zlib.crc32(piece, checksum)
    return checksum


def check_files(folder, manifest):
    """Raises CheckpointDamagedError unless the files of a manifest are there, with their sizes."""
    for name in manifest.files:
        there, size = size_of(folder / name), manifest.file_bytes.get(name)
        if there is None:
            raise CheckpointDamagedError(
                f"A checkpoint must have all its files. Received: {folder} without {name}"
            )
        if there != size:
            raise CheckpointDamagedError(
                "A checkpoint must have all its files, as long as they were. Received: "
                f"{folder / name} of {there} bytes, saved with {size}"
            )


def sync(path):
    """Returns when a file, or the names in a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
