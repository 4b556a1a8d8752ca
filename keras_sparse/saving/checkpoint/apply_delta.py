import contextlib

from keras_sparse import native
from keras_sparse.distribute.ranks.shared_errors import errors_on_all_ranks
from keras_sparse.saving.checkpoint.checkpoint_writer import check_model
from keras_sparse.saving.checkpoint.load_checkpoint import CheckpointInfo
from keras_sparse.saving.checkpoint.load_checkpoint import load_all_but_tables
from keras_sparse.saving.checkpoint.load_checkpoint import unchanged_unless_all_can
from keras_sparse.saving.checkpoint.loaded_state import loaded_step
from keras_sparse.saving.checkpoint.loaded_state import note_loaded
from keras_sparse.saving.checkpoint.whole_checkpoint import checkpoint_of_all_ranks
from keras_sparse.saving.checkpoint.whole_checkpoint import WholeCheckpoint
from keras_sparse.saving.format.file_context import in_file_context
from keras_sparse.saving.table_format.table_loader import TableLoader
from keras_sparse.tables.embedding_variable import tables_of
from keras_sparse.utils.progress_bar import Progress

# Changes that are kept from their check on, so that a lock is not held while they are read again.
_MOST_KEPT_BYTES = 256 << 20


def apply_delta(model, path, lock=None, verbose=True):
    """Updates a model in use from its loaded checkpoint to a later one.

    Only the changes are read: the rows of a delta, and those of deltas before it that the model
    lacks. All of them are checked before the model changes. Up to 256 MiB are kept in memory;
    tables with more changes are read again, one after the other. The rows of a table change at
    once: a lookup sees the old rows or the new ones. Dense variables change first, so hold `lock`
    during a prediction to see one state.

    If the model is compiled with the optimizer of the training, the result is that of
    `load_checkpoint` of the later state. A model without the optimizer receives rows alone. It can
    follow optimizers that move no row without a gradient: Adagrad, SGD and all lazy ones. Tables
    that keep ages and frequencies receive them. The state of admission filters is not updated, so
    the next save of the model must be a checkpoint instead of a delta.

    Args:
        model: `keras.Model` that `load_checkpoint` or `apply_delta` has brought to a state that the
            later one builds on, and that has not been trained since.
        path: Path of a delta, of a checkpoint that links the files of the model's state, or of a
            folder of `callbacks.Checkpoint` to use its latest one.
        lock: Context manager that is entered while the model changes, such as `threading.Lock()`.
            Defaults to `None`.
        verbose: Boolean. Whether to show a progress bar if reading takes long. Defaults to `True`.

    Returns:
        `CheckpointInfo`.

    Raises:
        FileNotFoundError: There is no whole checkpoint at `path`, or a delta's base is missing.
        CheckpointDamagedError: The checkpoint is damaged.
        ValueError: The checkpoint does not build on the model's state; `load_checkpoint` loads it.
            After this error and those above, the model is unchanged. If memory or a disk fails, or
            files are removed, while rows are written, the model is between both states, and
            `load_checkpoint` repairs it.
    """
    path = checkpoint_of_all_ranks(path)
    with errors_on_all_ranks("apply_delta_begins"):
        check_model(model)
        changes = find_changes(model, WholeCheckpoint(path))
        if changes is None:
            raise ValueError(
                "A delta must build on the state that the model was loaded from, unchanged "
                "since. If the saving optimizer moves rows without a gradient, the model must "
                "be compiled with it. Use `load_checkpoint`, which loads the whole state. "
                f"Received: '{path}' for model '{model.name}', which was {_state_text(model)}"
            )
        changes.check(verbose)
    return changes.apply(lock)


def find_changes(model, checkpoint):
    """Returns the `_Changes` between the state of a model and a later `WholeCheckpoint`.

    Returns:
        `None` if the checkpoint does not go on from there.
    """
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not optimizer.built:
        optimizer.build(model.trainable_variables)  # rows receive fresh slots: see loaded_step
    tables = tables_of(model)
    if loaded_step(model) is None or any(
        each.loaded_state.number >= len(checkpoint.tables) for each in tables
    ):
        return None
    with in_file_context(is_growing=True):  # a grown table raises no error but does not build on it
        loaders = [
            TableLoader(each, checkpoint.tables[each.loaded_state.number]) for each in tables
        ]
    pairs = zip(tables, loaders, strict=True)
    if not all(loader.goes_on_from(each.loaded_state.files) for each, loader in pairs):
        return None
    return _Changes(model, checkpoint, tables, loaders)


class _Changes:
    """The changes of a checkpoint relative to the state of a model."""

    def __init__(self, model, checkpoint, tables, loaders):
        self._model = model
        self._checkpoint = checkpoint
        self._tables = tables
        self._loaders = loaders
        self._files = [each.loaded_state.files for each in tables]
        self._kept: list = []  # the history and the changes of each table, or None

    def check(self, verbose):
        """Reads and checks all changes, and keeps as many as fit in memory."""
        self._checkpoint.check_weights()
        pairs = list(zip(self._loaders, self._files, strict=True))
        number = sum(loader.num_records(files) for loader, files in pairs)
        progress = Progress(number, "thousand rows", 1000, verbose)
        room = _MOST_KEPT_BYTES
        for loader, files in pairs:
            history = loader.later_history()
            kept: list = []
            num_bytes = 0
            for change in loader.read_changes(files, history, progress):
                num_bytes += sum(each.nbytes for each in change)
                if num_bytes <= room:
                    kept.append(change)
                else:
                    kept.clear()
            is_kept = num_bytes <= room
            room -= num_bytes if is_kept else 0
            self._kept.append((history, kept) if is_kept else None)
        progress.close()

    def _read(self):
        """Yields the history and the changes of each table."""
        for loader, files, kept in zip(self._loaders, self._files, self._kept, strict=True):
            if kept is None:
                history = loader.later_history()
                progress = Progress(loader.num_records(files), "thousand rows", 1000, False)
                kept = history, list(loader.read_changes(files, history, progress))
            yield kept
            del kept

    def apply(self, lock=None):
        """Changes the model, and returns the `CheckpointInfo` of its new state."""
        with (
            lock or contextlib.nullcontext(),
            unchanged_unless_all_can(self._model, "apply_delta_changes"),
        ):
            loaded, report = load_all_but_tables(self._model, self._checkpoint)
            for variable in self._tables:
                variable.loaded_state = variable.saved_state = None
            for _, _, loader in loaded:
                loader.load_accumulated()
            for variable, kept in zip(self._tables, self._read(), strict=True):
                native.apply_changes(variable, *kept)
                del kept  # before the changes of the next table are read
            note_loaded(loaded, self._checkpoint.manifest.step)
        return CheckpointInfo.of(self._checkpoint, report)


def _state_text(model):
    step = loaded_step(model)
    return "loaded from no checkpoint, or changed since" if step is None else f"at step {step}"
