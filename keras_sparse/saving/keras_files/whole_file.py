"""Files of Keras that get their names when they are whole."""

import contextlib
import os
import pathlib
import shutil
import tempfile

import tensorflow as tf

from keras_sparse.saving.format.folder_files import sync
from keras_sparse.saving.format.partial_folder import passing_folder
from keras_sparse.utils import checks


@contextlib.contextmanager
def whole_file(filepath):
    """Yields the path to write a file to, which comes to `filepath` at the end.

    An error until then leaves what is there as it was. What is written beside the file, such as the
    shards of a map, comes along, one after the other and the file itself last: what ends the
    process in this moment leaves some of the old ones and some of the new.

    Args:
        filepath: String: a path, or a URL that `tf.io.gfile` knows.
    """
    name = os.path.basename(filepath)
    if checks.is_url(filepath):
        with tempfile.TemporaryDirectory() as local:
            yield os.path.join(local, name)
            for each in _names(local, name):
                to = f"{os.path.dirname(filepath)}/{each}"
                tf.io.gfile.copy(os.path.join(local, each), to, overwrite=True)
        return
    target = pathlib.Path(os.path.realpath(filepath))
    folder = target.parent
    try:
        with passing_folder(target) as folder:
            yield str(folder / name)
            _move(folder, name, target)
    except OSError as error:
        if error.errno and (error.filename is None or str(folder) in str(error.filename)):
            raise OSError(error.errno, error.strerror, filepath) from error
        raise


def _names(folder, last):
    """The names of the files in a folder, that of the one that names the others last."""
    return sorted(os.listdir(folder), key=lambda name: (name == last, name))


def _move(folder, name, target):
    """Puts a file in the place of an older one, which a link may call by a name of its own."""
    for each in _names(folder, name):
        to = target if each == name else target.with_name(each)
        if to.exists():
            shutil.copymode(to, folder / each)
        sync(folder / each)
        os.replace(folder / each, to)
    sync(target.parent)
