import contextlib
import pathlib
import threading
import warnings

from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.saving.checkpoint.apply_delta import find_changes
from keras_sparse.saving.checkpoint.checkpoint_folder import CheckpointFolder
from keras_sparse.saving.checkpoint.checkpoint_manifest import Manifest
from keras_sparse.saving.checkpoint.load_checkpoint import load_checkpoint
from keras_sparse.saving.checkpoint.whole_checkpoint import check_checkpoint
from keras_sparse.saving.checkpoint.whole_checkpoint import WholeCheckpoint
from keras_sparse.saving.format.damage_error import CheckpointDamagedError
from keras_sparse.utils import checks


def follow(model, folder, every=60.0, lock=None, verbose=False):
    """Keeps a model that answers requests at the last state that a training has saved.

    The last checkpoint or delta is loaded before this returns. From then on a thread looks for a
    later one, reads what has come since and changes the model in place, as `apply_delta` does. A
    checkpoint that was written anew as a whole, because most of its rows have changed, is loaded as
    a whole, and so is each if the optimizer of the training moves rows without a gradient and the
    model is not compiled with it. Give a `lock` then: lookups meanwhile would miss rows that are
    not there yet.

    What is damaged is passed by with a warning, and what the training removes meanwhile in silence:
    the model stays at the state that it has until a later one is whole. Let the training keep some
    checkpoints (`Checkpoint(..., keep=3)`), so that none goes while it is loaded as a whole. Tables
    that were loaded with `grow=True` cannot follow.

    To follow another folder, such as that of the next day or of an earlier one, stop the follower
    and call this again with the same model: it reads what has changed, or loads the whole state.

    Args:
        model: A built `keras.Model`.
        folder: Path of the folder that `callbacks.Checkpoint` saves in.
        every: Float. Seconds between two looks. Defaults to 60.
        lock: Context manager that is entered while the model changes, as `threading.Lock()`.
            Defaults to `None`.
        verbose: Boolean. Whether to show bars where loading takes long. Defaults to `False`.

    Returns:
        `Follower`, which also is a context manager that stops at its end.

    Raises:
        FileNotFoundError: There is no checkpoint yet.
    """
    follower = Follower(model, folder, every, lock, verbose)
    if not follower.look():
        raise FileNotFoundError(
            "`folder` must have a checkpoint or delta, as `callbacks.Checkpoint` saves them, to "
            f"begin with. Received: folder='{folder}' with none that is whole"
        )
    follower.start()
    return follower


class Follower:
    """What `follow` returns.

    Attributes:
        step: Integer: the steps of the training that the model has now. `None` while a state is
            loaded as a whole, and after an error of that until another one is.
        path: `pathlib.Path` of the checkpoint or delta with this state, or `None` likewise.
        error: The last exception that a look ended with, or `None` if it went well.

    Example:
    >>> _ = keras_sparse.saving.save_checkpoint(model, "run/step-000000010")
    >>> with keras_sparse.serving.follow(model, "run") as follower:
    ...     isinstance(follower, keras_sparse.serving.Follower), follower.path.name
    (True, 'step-000000010')
    """

    def __init__(self, model, folder, every=60.0, lock=None, verbose=False):
        if size() > 1:
            raise NotImplementedError(
                "A model must be of one process to follow a training. Start a process of its own "
                f"for it, which loads what any number of ranks saved. Received: {size()} ranks"
            )
        self._every = checks.between(every, 0, threading.TIMEOUT_MAX, "every")
        folder = pathlib.Path(checks.local_path(folder, "folder"))
        if not folder.is_dir():
            raise FileNotFoundError(f"`folder` must be there. Received: folder='{folder}'")
        self._folder = CheckpointFolder(folder, is_cleaned=False)
        self._model = model
        self._lock = lock or contextlib.nullcontext()
        self._verbose = verbose
        self._passed_by: set = set()
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keras_sparse follow", daemon=True)
        self._id = None  # of the manifest of what the model has
        self.step = None
        self.path = None
        self.error = None

    def start(self):
        """Starts to look, every so many seconds."""
        self._thread.start()

    def stop(self):
        """Ends it, once a change that has begun is done. The model keeps its state."""
        self._is_stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()

    def look(self):
        """Looks once for another state than the model's, and returns whether it has that now."""
        found = self._folder.list()
        for saved in reversed(found):
            # A training that went back to an earlier step has its last state there.
            is_last = saved is found[-1]
            if self.step is not None and saved.step < self.step and not is_last:
                return False
            if saved.path in self._passed_by:
                continue
            try:
                manifest_id = Manifest.read(saved.path).id
                if manifest_id == self._id:
                    return False
                self._bring_to(saved.path)
            except FileNotFoundError:  # removed since it was listed, it or what it goes back to
                continue
            except CheckpointDamagedError as error:
                self._passed_by.add(saved.path)
                warnings.warn(f"A model follows what is whole, not this: {error}", stacklevel=2)
                continue
            self._id, self.step, self.path = manifest_id, saved.step, saved.path
            return True
        return False

    def _bring_to(self, path):
        checkpoint = WholeCheckpoint(path)
        changes = find_changes(self._model, checkpoint)
        if changes is not None:
            changes.check(self._verbose)
            try:
                changes.apply(self._lock)
            except BaseException:
                self._id = self.step = self.path = None  # as below
                raise
            return
        check_checkpoint(checkpoint, checkpoint.readers, self._verbose)
        with self._lock:
            # Cut off, it leaves no state: then whatever is whole is loaded.
            self._id = self.step = self.path = None
            load_checkpoint(self._model, path, verify=False, verbose=self._verbose)

    def _run(self):
        while not self._is_stopping.wait(self._every):
            try:
                self.look()
                self.error = None
            except Exception as error:  # the next look may go well: of a full disk, perhaps
                self.error = error
                warnings.warn(
                    f"A model could not follow its training, and tries again: {error!r}",
                    stacklevel=2,
                )
