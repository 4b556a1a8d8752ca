import functools
import inspect
import os
import pathlib

from keras.src.saving import saving_lib  # what Keras does with memory has no public name
from keras.src.utils import io_utils

from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.distribute.ranks.shared_errors import errors_on_all_ranks
from keras_sparse.optimizers.support.started_mean import without_started_mean
from keras_sparse.saving.format.external_tables import are_tables_external
from keras_sparse.saving.keras_files.hdf5_write_errors import hdf5_write_errors
from keras_sparse.saving.keras_files.shared_file import rank_0_file
from keras_sparse.saving.keras_files.table_holder import TableHolder
from keras_sparse.saving.keras_files.whole_file import whole_file
from keras_sparse.tables.tables_of import tables_of
from keras_sparse.utils import checks


def carefully(save):
    """Makes what saves a model say where a disk is full, and leave no half a file.

    On several ranks all of them call it for a model with a `DistributedEmbedding`, and rank 0
    writes the file.
    """
    signature = inspect.signature(save)

    @functools.wraps(save)
    def save_carefully(model, filepath, *args, **kwargs):
        call = signature.bind(model, filepath, *args, **kwargs)
        is_together = size() > 1 and not are_tables_external() and is_saved_together(model)
        if not is_together and not has_tables(model):
            save(model, filepath, *args, **kwargs)
        elif are_tables_external():
            with hdf5_write_errors():
                save(model, filepath, *args, **kwargs)
        elif is_together or not _is_file(filepath) or _may_overwrite(call):
            with without_started_mean(getattr(model, "optimizer", None), tables_of(model)):
                _save(save, call, is_together)

    return save_carefully


def _save(save, call, is_together):
    filepath = call.arguments["filepath"]
    if is_together:
        _save_on_rank_0(save, call)
    elif _is_file(filepath):
        _save_whole(save, call, checks.path(filepath, "filepath"))
    else:
        with hdf5_write_errors():
            save(*call.args, **call.kwargs)


def has_tables(model):
    """Returns whether a model has tables of ours."""
    return bool(tables_of(model))


def _is_file(filepath):
    """Returns whether Keras saves files of this name, which are no folders and not on a hub."""
    return str(filepath).endswith((".keras", ".h5", ".hdf5", ".weights.json"))


def _may_overwrite(call):
    """Returns whether Keras would: it asks at a terminal, but not for the place written to."""
    path = os.path.expanduser(call.arguments["filepath"])
    if call.arguments.get("overwrite", True) or not os.path.exists(path):
        return True
    return io_utils.ask_to_proceed_with_overwrite(path)


def _save_whole(save, call, path):
    with whole_file(path) as new_path, hdf5_write_errors():
        call.arguments["filepath"] = new_path
        save(*call.args, **call.kwargs)


def _save_on_rank_0(save, call):
    filepath = checks.path(call.arguments["filepath"], "filepath")
    with errors_on_all_ranks("save_begins"):
        if rank() == 0 and not checks.is_url(filepath):
            _check_path(filepath, call.arguments.get("overwrite", True))
    call.arguments["overwrite"] = True
    with rank_0_file(filepath) as path:
        _save_whole(save, call, path)


def _check_path(filepath, overwrite):
    path = pathlib.Path(filepath)
    if not os.access(path.absolute().parent, os.W_OK):
        raise FileNotFoundError(
            f"`filepath` must be in a folder that can be written to. Received: '{filepath}'"
        )
    # Keras would ask at a terminal, which a launcher does not give to its ranks.
    if not overwrite and path.exists():
        raise FileExistsError(
            "`filepath` must be new where several ranks save with `overwrite=False`. Remove it "
            f"first, or choose another name. Received: '{filepath}'"
        )


def is_saved_together(model):
    """Returns whether a layer of the model has its tables on all ranks, parts or copies of them.

    That is the same on all ranks, whatever the placement.
    """
    return any(isinstance(layer, TableHolder) for layer in model._flatten_layers())


_is_memory_sufficient = saving_lib.is_memory_sufficient


@functools.wraps(_is_memory_sufficient)
def is_memory_sufficient(model):
    """Returns whether Keras makes and reads the weights of a `.keras` file whole in memory.

    A model with tables has them in a file beside it: Keras knows neither the rows that a dynamic
    table has not loaded yet, nor slots.
    """
    return not has_tables(model) and _is_memory_sufficient(model)
