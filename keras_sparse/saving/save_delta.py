from keras_sparse.embedding_variable import EmbeddingVariable
from keras_sparse.saving.checkpoint_manifest import Manifest
from keras_sparse.saving.checkpoint_writer import write_checkpoint


def save_delta(model, path, training=None, verbose=True):
    """Saves what has changed since the model was last saved or loaded.

    A delta is a folder like a checkpoint, with the rows of all tiers that have changed, and the
    keys of those that have gone. `load_checkpoint` of a delta loads the checkpoint it goes back to
    and the deltas in between first, so that these must stay where they are, seen from it.

    Args:
        model: A built `keras.Model`. It must not be trained meanwhile.
        path: Path of the folder to make. There must be nothing.
        training: As in `save_checkpoint`.
        verbose: Boolean. Whether to show a bar if it takes long. Defaults to `True`.

    Returns:
        `pathlib.Path` of the delta.

    Raises:
        FileExistsError: There is something at `path`.
        RuntimeError: The model has not been saved by `save_checkpoint` or loaded by
            `load_checkpoint`, or was trained meanwhile.
    """
    states = {
        variable.saved_state.id: variable.saved_state
        for variable in model.variables
        if isinstance(variable, EmbeddingVariable) and variable.saved_state is not None
    }
    if len(states) != 1:
        raise RuntimeError(
            "`save_delta` must go on from one checkpoint of the whole model. Call "
            f"`save_checkpoint` first. Received: model '{model.name}' with tables of "
            f"{len(states)} checkpoints"
        )
    (base,) = states.values()
    if not _is_there(base):
        raise RuntimeError(
            "`save_delta` must go on from the last checkpoint or delta, and that is not there any "
            f"more. Call `save_checkpoint` for a new one. Received: no '{base.folder}'"
        )
    return write_checkpoint(model, path, base, training, verbose)


def _is_there(base):
    try:
        return Manifest.read(base.folder).id == base.id
    except (FileNotFoundError, ValueError):
        return False
