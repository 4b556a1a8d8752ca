import contextlib

from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.distribute.ranks.shared_errors import errors_on_all_ranks
from keras_sparse.saving.checkpoint.checkpoint_manifest import Base
from keras_sparse.saving.checkpoint.checkpoint_reader import CheckpointReader
from keras_sparse.saving.checkpoint.checkpoint_writer import is_saved_here
from keras_sparse.saving.checkpoint.checkpoint_writer import rank_base
from keras_sparse.saving.checkpoint.checkpoint_writer import write_checkpoint
from keras_sparse.tables.embedding_variable import tables_of


def save_delta(model, path, training=None, verbose=True, links=True):
    """Saves the changes since the model was last saved or loaded as a delta.

    A delta is a folder like a checkpoint. It holds the changed rows of all tiers and the keys of
    deleted rows. `load_checkpoint` of a delta first loads its checkpoint and the deltas in between,
    which must stay at the same relative place. Every save of the model becomes the base of the next
    delta. If all rows of a table count as changed, the delta holds all of them.

    On several ranks, all ranks must call it together.

    Args:
        model: Built `keras.Model`. It must not be trained during the call.
        path: Path of the folder to create. It must not exist.
        training: JSON-serializable dict, returned as `CheckpointInfo.training` when the delta is
            read. Defaults to `None`: an empty dict.
        verbose: Boolean. Whether to show a progress bar if saving takes long. Defaults to `True`.
        links: Boolean. Whether to hard-link segments of SSD tiers if all rows of a table count as
            changed. If `False`, these rows are written. Defaults to `True`.

    Returns:
        `pathlib.Path` of the delta.

    Raises:
        FileExistsError: `path` exists.
        RuntimeError: The model was not saved by `save_checkpoint` or loaded by `load_checkpoint`
            before, its base is gone, or it was trained during the call.
    """
    base = find_base(model)
    if base is None:
        raise RuntimeError(
            "`save_delta` must build on a checkpoint of the whole model that still exists, with "
            f"all its bases. Call `save_checkpoint` first. Received: model '{model.name}' "
            "without such a checkpoint"
        )
    return write_checkpoint(model, path, base, training, verbose, links)


def find_base(model):
    """Returns the `Base` of the next delta, with a whole path. All ranks call it.

    Args:
        model: `keras.Model`.

    Returns:
        `None` if the tables of the model were not all saved or loaded together, by as many ranks,
        or if what they were saved to is gone: on all ranks.
    """
    states = {
        (str(_folder_of_all(variable.saved_state.folder)), variable.saved_state.id)
        for variable in tables_of(model)
        if is_saved_here(variable) and variable.saved_state is not None
    }
    states = set().union(*gather_objects(states, "find_base.states"))
    if len(states) != 1:
        return None
    base = Base(*states.pop())
    is_there = False
    with errors_on_all_ranks("find_base.read"), contextlib.suppress(FileNotFoundError, ValueError):
        is_there = CheckpointReader(rank_base(base).path).manifest.id == base.id
    return base if all(gather_objects(is_there, "find_base.is_there")) else None


def _folder_of_all(folder):
    """Returns the folder of the checkpoint that contains a rank's folder."""
    return folder if size() == 1 else folder.parent
