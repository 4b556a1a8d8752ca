"""How many steps an optimizer has counted, and how many of them make an update."""

import warnings

import h5py
import numpy as np

from keras_sparse.optimizers.support.started_mean import forget_started_mean
from keras_sparse.optimizers.support.step_count import accumulation
from keras_sparse.optimizers.support.step_count import all_that_count
from keras_sparse.optimizers.support.step_count import optimizers_in
from keras_sparse.optimizers.support.step_count import set_iterations
from keras_sparse.saving.format.read_dataset import read_dataset
from keras_sparse.saving.keras_files.hdf5_write_errors import hdf5_write_errors
from keras_sparse.tables.embedding_variable import tables_of

_NAME = "accumulation"
_UNLOADED = -1


def write_accumulation(model, path):
    """Adds what the optimizer counts to Keras' file of the model's weights."""
    if getattr(model, "optimizer", None) is not None:
        with hdf5_write_errors(), h5py.File(path, "r+") as file:
            file[_NAME] = np.array(accumulation(model.optimizer), np.int64)


def note_unloaded(model):
    """Gives an optimizer a count that no file has, and returns the one that it had.

    It shows afterwards whether the optimizer's variables were loaded: Keras leaves out those of
    another optimizer.
    """
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        return 0
    _, count = accumulation(optimizer)
    for each in all_that_count(optimizer):
        each._iterations.assign(_UNLOADED)
    return count


def resume_accumulation(model, checkpoint, loaders, count, is_whole=True):
    """Lets tables resume the accumulated gradients of a checkpoint, or drops these with a warning.

    They are dropped if the optimizer's variables were not loaded, as those of another optimizer, or
    if its updates have another number of steps. The optimizer resumes from its last update then.

    Args:
        model: `keras.Model`, of which all but the tables is loaded.
        checkpoint: `WholeCheckpoint`.
        loaders: List of `TableLoader`.
        count: Integer, which `note_unloaded` returned before.
        is_whole: Boolean. Whether nothing was skipped. Defaults to `True`.
    """
    optimizer, owners, is_lost = getattr(model, "optimizer", None), [], False
    if optimizer is not None:
        counting = all_that_count(optimizer)
        unloaded = [each for each in counting if int(each._iterations) == _UNLOADED]
        for each in unloaded:
            each._iterations.assign(count)
        ours = accumulation(optimizer)
        saved, has_all = _saved_accumulation(checkpoint, *ours)
        if saved == ours and has_all and is_whole and not unloaded:
            owners = optimizers_in(optimizer)
        else:
            is_lost = saved[1] % max(1, saved[0]) > 0
            forget_started_mean(optimizer, tables_of(model))
            if saved[1] == ours[1] and not unloaded:
                set_iterations(optimizer, checkpoint.manifest.step)
    for loader in loaders:
        if not any(loader.owner is each for each in owners):
            is_lost = loader.drop_accumulated() or is_lost
    if is_lost:
        warnings.warn(
            "A checkpoint that was saved between two steps of an update must be loaded with the "
            "optimizer and the `gradient_accumulation_steps` that saved it, and be of a version "
            "that saves what tables accumulate. The gradients since its last update are dropped. "
            f"Received: '{checkpoint.folder}' for model '{model.name}'",
            stacklevel=4,
        )


def _saved_accumulation(checkpoint, steps, count):
    """Returns what `accumulation` gave when it was saved, and whether all gradients are there."""
    with h5py.File(checkpoint.weights, "r") as file:
        if _NAME in file:
            return tuple(read_dataset(file, _NAME, np.int64, (2,)).tolist()), True
    # A version that did not save the accumulated gradients of tables has written it.
    step = checkpoint.manifest.step
    saved = (steps, count) if count // steps == step else (1, step)
    return saved, not checkpoint.tables or saved[1] % saved[0] == 0
