import pathlib

import h5py

from keras_sparse.saving.checkpoint.checkpoint_folder import CheckpointFolder
from keras_sparse.saving.checkpoint.whole_checkpoint import check_checkpoint
from keras_sparse.saving.checkpoint.whole_checkpoint import WholeCheckpoint
from keras_sparse.saving.keras_files.verify_file import verify_file
from keras_sparse.utils import checks


def verify(filepath):
    """Checks every byte of the tables in a weights file or a checkpoint.

    `model.load_weights` and `load_checkpoint` do this before they load anything.

    Args:
        filepath: Path of a `.weights.h5` or `.keras` file, or of the `.weights.json` of several
            files, or a URL that `tf.io.gfile` knows; an open `h5py.File`; or the path of a
            checkpoint or delta, or of a folder of `callbacks.Checkpoint` to use its latest one.

    Returns:
        Integer. Number of tables.

    Raises:
        ValueError: A table is damaged. The message names its place in the file.
        OSError: The file is truncated, or is not an HDF5 file.
    """
    if isinstance(filepath, h5py.File):
        return verify_file(filepath)
    path = checks.path(filepath, "filepath")
    if not pathlib.Path(path).is_dir():
        return verify_file(path)
    saved = CheckpointFolder(path, is_cleaned=False).list()
    checkpoint = WholeCheckpoint(saved[-1].path if saved else path)
    check_checkpoint(checkpoint, checkpoint.readers)
    return len(checkpoint.tables)
