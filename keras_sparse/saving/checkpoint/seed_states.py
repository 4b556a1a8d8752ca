"""How far the random numbers of a model have come, as of `Dropout`: Keras' own files leave it out.

A `keras.random.SeedGenerator` is a seed and how many numbers it has given. Each rank has its own.
"""

import h5py
import numpy as np

from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.saving.keras_files.hdf5_write_errors import hdf5_write_errors

_NAME = "seed_states"


def gather_seed_states(model):
    """Returns those of all ranks, which call it together.

    Returns:
        uint32 array of shape `(num_ranks, num_generators, 2)`.
    """
    of_ranks = gather_objects([each.numpy().tolist() for each in _states_of(model)], _NAME)
    return np.array(of_ranks, np.uint32).reshape(size(), -1, 2)


def write_seed_states(states, path):
    """Adds what `gather_seed_states` gave to Keras' file of the model's weights."""
    if states.size:
        with hdf5_write_errors(), h5py.File(path, "r+") as file:
            file[_NAME] = states


def read_seed_states(model, path):
    """Lets the model's random numbers go on where they were, if the file says it.

    A file of an earlier version does not, and one of a model with other random layers says nothing
    of these. On more ranks than have saved it, those that come new begin as they are.
    """
    states = _states_of(model)
    with h5py.File(path, "r") as file:
        saved = file[_NAME][()] if _NAME in file else np.empty((0, 0, 2), np.uint32)
    if len(saved) <= rank() or saved.shape[1] != len(states):
        return
    for state, value in zip(states, saved[rank()], strict=True):
        state.assign(value)


def _states_of(model):
    """Returns the variables of the generators of all layers, in the order of these."""
    found = {}
    for layer in model._flatten_layers():
        for generator in layer._seed_generators:
            found[id(generator.state)] = generator.state
    return list(found.values())
