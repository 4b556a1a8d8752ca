"""Files of Keras that get their names when they are whole."""

import contextlib
import os
import pathlib
import re
import shutil
import tempfile
import uuid

import tensorflow as tf

from keras_sparse import checks
from keras_sparse.saving import partial_folder
from keras_sparse.saving.checkpoint_manifest import sync


@contextlib.contextmanager
def whole_file(filepath):
    """Yields the path to write a file to, which comes to `filepath` at the end.

    An error leaves what is there as it was. What is written beside the file, such as the shards of
    a map, comes along, the file itself last.

    Args:
        filepath: String: a path, or a URL that `tf.io.gfile` knows.
    """
    if checks.is_url(filepath):
        with tempfile.TemporaryDirectory() as folder:
            yield os.path.join(folder, os.path.basename(filepath))
            for name in _names(folder, os.path.basename(filepath)):
                to = f"{os.path.dirname(filepath)}/{name}"
                tf.io.gfile.copy(os.path.join(folder, name), to, overwrite=True)
        return
    target = pathlib.Path(os.path.realpath(filepath))
    folder = partial_folder.partial_path(target, uuid.uuid4().hex[:16])
    try:
        with _locked_folder(folder, target.name):
            yield str(folder / target.name)
            _move(folder, target)
    except OSError as error:
        if error.errno and (error.filename is None or str(folder) in str(error.filename)):
            error.filename, error.filename2 = filepath, None
        raise


@contextlib.contextmanager
def _locked_folder(folder, name):
    """A new folder, which the next save of this name removes if this process is killed."""
    folder.mkdir()
    try:
        with partial_folder.locked(folder):
            partial_folder.remove_partial(folder.parent, re.compile(re.escape(name)))
            yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _names(folder, last):
    """The names of the files in a folder, that of the one that names the others last."""
    return sorted(os.listdir(folder), key=lambda name: (name == last, name))


def _move(folder, target):
    for name in _names(folder, target.name):
        to = target.with_name(name)
        if to.exists():
            shutil.copymode(to, folder / name)
        sync(folder / name)
        os.replace(folder / name, to)
    sync(target.parent)
