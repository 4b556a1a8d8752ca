from keras_sparse.saving.checkpoint.checkpoint_writer import write_checkpoint


def save_checkpoint(model, path, training=None, verbose=True, links=True):
    """Saves a model with tables of any size as a checkpoint.

    A checkpoint is a folder that stands alone. It holds the dense variables and the optimizer's
    state in Keras' own file, rows with their slots and the state of admission filters in HDF5
    files, and the segments of SSD tiers. It is written under another name and renamed once all of
    it is on disk, so a crash at any moment leaves a whole checkpoint.

    Rows that have not changed since the model was last saved or loaded are not written again: the
    files that hold them are hard-linked, as are segments of SSD tiers. So the second checkpoint
    costs only the changes, and an old checkpoint can be removed at any time. Files on another file
    system than the last checkpoint or the tiers' `storage_path` are copied instead.

    On several ranks, all ranks must call it together.

    Args:
        model: Built `keras.Model`. It must not be trained during the call.
        path: Path of the folder to create. It must not exist.
        training: JSON-serializable dict, returned as `CheckpointInfo.training` when the checkpoint
            is read. Defaults to `None`: an empty dict.
        verbose: Boolean. Whether to show a progress bar if saving takes long. Defaults to `True`.
        links: Boolean. Whether to hard-link the files of unchanged rows. If `False`, all rows are
            written: a linked file may still contain bytes of erased rows, which nothing reads,
            unless `compact` was called since. Defaults to `True`.

    Returns:
        `pathlib.Path` of the checkpoint.

    Raises:
        FileExistsError: `path` exists.
        RuntimeError: The model is not built, or was trained during the call. No checkpoint is left.
        ValueError: `training` is not JSON-serializable.
    """
    return write_checkpoint(model, path, None, training, verbose, links)
