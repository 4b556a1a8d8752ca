from keras_sparse.saving.checkpoint.checkpoint_writer import write_checkpoint


def save_checkpoint(model, path, training=None, verbose=True, links=True):
    """Saves a model with tables of any size, so that a crash at any moment leaves a whole one.

    The checkpoint is a folder that stands alone: dense variables and the optimizer's state in
    Keras' own file, rows with their slots and what admission filters remember in HDF5 files, and
    the segments of SSD tiers. It is written under another name and renamed when all of it is on
    disk.

    Rows that have not changed since the model was last saved or loaded are not written again: the
    files that hold them are hard-linked, and so are segments of SSD tiers. So the second checkpoint
    costs what has changed, and an old one can be removed at any time. On another file system than
    the last checkpoint, or than the tiers' `storage_path`, they are copied.

    Args:
        model: A built `keras.Model`. It must not be trained meanwhile.
        path: Path of the folder to make. There must be nothing.
        training: Dict that JSON can hold, to be found again in `CheckpointInfo.training`. Defaults
            to `None`, an empty one.
        verbose: Boolean. Whether to show a bar if it takes long. Defaults to `True`.
        links: Boolean. Whether files may be linked. If not, all rows are written anew: a linked
            file may still have the bytes of rows that were erased, which nothing reads, unless
            `compact` has been called since. Defaults to `True`.

    Returns:
        `pathlib.Path` of the checkpoint.

    Raises:
        FileExistsError: There is something at `path`.
        RuntimeError: The model was trained meanwhile. There is no checkpoint then.
    """
    return write_checkpoint(model, path, None, training, verbose, links)
