"""Weights of any place and kind of file, as files of a disk of this machine."""

import contextlib
import errno
import json
import os
import pathlib
import shutil
import tempfile
import zipfile

import tensorflow as tf

from keras_sparse.saving.format.damage_error import PARSER_ERRORS
from keras_sparse.saving.format.partial_folder import passing_folder
from keras_sparse.utils import checks

_MEMBER = "model.weights.h5"  # of a `.keras` file


@contextlib.contextmanager
def local_copy(filepath):
    """Yields the `pathlib.Path` of a local `.weights.h5` or `.weights.json` with what a file has.

    A file that `tf.io.gfile` knows and the system does not is copied, and the weights in a `.keras`
    file are: for as long as this is entered.

    Args:
        filepath: String.

    Raises:
        ValueError: A `.keras` file has no weights, or is damaged.
        OSError: The disk has no room for the weights of a `.keras` file.
    """
    with contextlib.ExitStack() as stack:
        if checks.is_url(filepath):
            filepath = _fetch(filepath, stack.enter_context(tempfile.TemporaryDirectory()))
        if filepath.endswith(".keras"):
            filepath = _extract(filepath, stack.enter_context(_folder_beside(filepath)))
        yield pathlib.Path(filepath)


def _fetch(url, folder):
    """Copies a file into a folder, and of a map of several files all of these."""
    path = os.path.join(folder, os.path.basename(url))
    try:
        tf.io.gfile.copy(url, path)
        if path.endswith(".json"):
            for name in shards_of(path):
                tf.io.gfile.copy(f"{os.path.dirname(url)}/{name}", os.path.join(folder, name))
    except tf.errors.OpError as error:
        raise OSError(
            "A file at a URL must be one that `tf.io.gfile` can read. Copy it to this machine. "
            f"Received: {url}: {error.message}"
        ) from error
    return path


def shards_of(path):
    """Returns the set of the names of the files that Keras' map of a sharded save names."""
    names = {name for files in weight_map(path).values() for name in files}
    for name in names:
        if os.path.basename(name) != name:
            raise ValueError(
                "The files of sharded weights must lie beside their map, under plain names. "
                f"Received: {name!r} in {path}"
            )
    return names


def weight_map(path):
    """Returns the files of each table and layer as Keras' map of a sharded save has them: lists."""
    try:
        content = json.loads(pathlib.Path(checks.regular_file(path)).read_text())["weight_map"]
        files = {name: [each] if isinstance(each, str) else each for name, each in content.items()}
        if not all(isinstance(name, str) for each in files.values() for name in each):
            raise ValueError("a file's name must be a string")
        return files
    except PARSER_ERRORS as error:
        raise ValueError(
            "A `.weights.json` must be a map of files, as `save_weights` writes it. It is damaged, "
            f"or of another kind. Received: {path}: {error!r}"
        ) from error


def _folder_beside(path):
    """A folder for a copy of a large file; where memory may be the disk, if there is no other."""
    path = pathlib.Path(path).absolute()
    if os.access(path.parent, os.W_OK):
        return passing_folder(path)
    return tempfile.TemporaryDirectory()


def _extract(path, folder):
    try:
        with zipfile.ZipFile(checks.regular_file(path)) as archive:
            _check_room(archive.getinfo(_MEMBER).file_size, folder, path)
            return archive.extract(_MEMBER, folder)
    except PARSER_ERRORS as error:
        raise ValueError(
            "A `.keras` file must be whole, as `model.save` writes it. It is damaged, or of "
            f"another kind. Received: {path}: {error}"
        ) from error


def _check_room(num_bytes, folder, path):
    free = shutil.disk_usage(folder).free
    if num_bytes > free:
        raise OSError(
            errno.ENOSPC,
            "The disk must have room for the weights of a `.keras` file, which are copied out of "
            "it to be read. Make room, or save the weights by `save_weights`. Received: "
            f"{num_bytes} bytes of weights, with {free} bytes free in {os.path.dirname(folder)}",
            path,
        )
