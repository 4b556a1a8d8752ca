import dataclasses

import tensorflow as tf

from keras_sparse import native
from keras_sparse.tables.embedding_variable import tables_of


@dataclasses.dataclass(frozen=True)
class LoadedState:
    """What a table has been loaded from, as long as nothing else has changed it since.

    Args:
        step: Integer: `CheckpointInfo.step`.
        number: Integer: the table's place among those of the checkpoint.
        files: What has been read of it, as `TableLoader.files` gives it.
        version: Integer, of the table then: `native.snapshot_versions`.
    """

    step: int
    number: int
    files: tuple[tuple[tuple[str, str], ...], ...]
    version: int


def note_loaded(loaded, step):
    """Notes what tables have been loaded from.

    Args:
        loaded: List of `(variable, number, loader)`.
        step: Integer: `CheckpointInfo.step`.
    """
    versions = _versions([variable for variable, _, _ in loaded])
    for (variable, number, loader), version in zip(loaded, versions, strict=True):
        variable.loaded_state = LoadedState(step, number, loader.files(), version)


def loaded_step(model):
    """Returns the step that all tables of a model have been loaded from and still are at.

    Returns:
        `None` if there is none: one was never loaded, or has been trained or changed since.
    """
    tables = tables_of(model)
    states = [variable.loaded_state for variable in tables]
    if not tables or any(state is None for state in states):
        return None
    if [state.version for state in states] != _versions(tables):
        return None
    steps = {state.step for state in states}
    return steps.pop() if len(steps) == 1 else None


def _versions(variables):
    if not variables:
        return []
    with tf.init_scope():
        return native.snapshot_versions(variables)[0].numpy().tolist()
