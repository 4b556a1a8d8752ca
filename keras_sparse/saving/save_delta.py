from keras_sparse.embedding_variable import EmbeddingVariable
from keras_sparse.saving.checkpoint_reader import CheckpointReader
from keras_sparse.saving.checkpoint_writer import write_checkpoint


def save_delta(model, path, training=None, verbose=True):
    """Saves what has changed since the model was last saved or loaded.

    A delta is a folder like a checkpoint, with the rows of all tiers that have changed, and the
    keys of those that have gone. `load_checkpoint` of a delta loads the checkpoint it goes back to
    and the deltas in between first, so that these must stay where they are, seen from it. Every
    save of the model moves what the next delta goes on from. If all rows of a table count as
    changed, the delta has all of them.

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
    base = find_base(model)
    if base is None:
        raise RuntimeError(
            "`save_delta` must go on from a checkpoint of the whole model that is still there, "
            "with all that it goes back to. Call `save_checkpoint` first. Received: model "
            f"'{model.name}' without one"
        )
    return write_checkpoint(model, path, base, training, verbose)


def find_base(model):
    """Returns the `SavedState` of the checkpoint or delta that the next delta goes on from.

    Args:
        model: `keras.Model`.

    Returns:
        `None` if the tables of the model were not all saved or loaded together, or if what they
        were saved to is gone.
    """
    states = {
        variable.saved_state.id: variable.saved_state
        for variable in model.variables
        if isinstance(variable, EmbeddingVariable) and variable.saved_state is not None
    }
    if len(states) != 1:
        return None
    (base,) = states.values()
    try:
        return base if CheckpointReader(base.folder).manifest.id == base.id else None
    except (FileNotFoundError, ValueError):
        return None
