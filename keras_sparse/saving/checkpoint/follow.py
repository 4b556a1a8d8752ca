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
    """Keeps a serving model at the latest state that a training has saved.

    The latest checkpoint or delta is loaded before the function returns. Then a thread looks for
    later ones, reads the changes and updates the model in place, as `apply_delta` does. A state is
    loaded as a whole in two cases: a checkpoint wrote a table anew because most of its rows had
    changed, or the optimizer of the training moves rows without a gradient and the model is not
    compiled with it. Pass a `lock` for these cases, because lookups meanwhile would miss rows.

    A damaged checkpoint is skipped with a warning, and read again once files in the folder have
    changed. One that the training removes meanwhile is skipped silently: the model keeps its state
    until a later one is whole. Let the training keep some checkpoints (`Checkpoint(..., keep=3)`),
    so that none is removed while it is loaded as a whole. Tables that were loaded with `grow=True`
    cannot follow.

    To follow another folder, such as that of the next day, stop the follower and call this function
    again with the same model. It reads the changes, or loads the whole state.

    Args:
        model: Built `keras.Model`.
        folder: Path of the folder of `callbacks.Checkpoint`.
        every: Float. Seconds between two looks at the folder. Defaults to 60.
        lock: Context manager that is entered while the model changes, such as `threading.Lock()`.
            Defaults to `None`.
        verbose: Boolean. Whether to show progress bars if loading takes long. Defaults to `False`.

    Returns:
        `Follower`, also a context manager that stops it at the end of the block.

    Raises:
        FileNotFoundError: `folder` is missing or has no whole checkpoint yet.
        NotImplementedError: This process is one of several ranks.
    """
    follower = Follower(model, folder, every, lock, verbose)
    if not follower.look():
        raise FileNotFoundError(
            "`folder` must have a checkpoint or delta of `callbacks.Checkpoint`. Received: "
            f"folder='{folder}' without a whole one"
        )
    follower.start()
    return follower


class Follower:
    """Updates a model from the checkpoints of a training. `follow` returns it.

    Attributes:
        step: Integer. Number of training steps of the model's state. `None` while a state is loaded
            as a whole, and after an error of such a load until the next one succeeds.
        path: `pathlib.Path` of the checkpoint or delta with this state, or `None` in the same
            cases.
        error: Exception of the latest look, or `None` if it succeeded.

    Example:
    >>> _ = keras_sparse.saving.save_checkpoint(model, "run/step-000000010")
    >>> with keras_sparse.serving.follow(model, "run") as follower:
    ...     isinstance(follower, keras_sparse.serving.Follower), follower.path.name
    (True, 'step-000000010')
    """

    def __init__(self, model, folder, every=60.0, lock=None, verbose=False):
        if size() > 1:
            raise NotImplementedError(
                "A model must be in a single process to follow a training. Start a separate "
                "process for it, which loads checkpoints of any number of ranks. Received: "
                f"{size()} ranks"
            )
        self._every = checks.between(every, 0, threading.TIMEOUT_MAX, "every")
        folder = pathlib.Path(checks.local_path(folder, "folder"))
        if not folder.is_dir():
            raise FileNotFoundError(f"`folder` must exist. Received: folder='{folder}'")
        self._folder = CheckpointFolder(folder, is_cleaned=False)
        self._model = model
        self._lock = lock or contextlib.nullcontext()
        self._verbose = verbose
        self._damaged: dict = {}  # by path: the files of the folder when it was read
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keras_sparse follow", daemon=True)
        self._id = None  # of the manifest of the model's state
        self.step = None
        self.path = None
        self.error = None

    def start(self):
        """Starts the thread that looks for later states."""
        self._thread.start()

    def stop(self):
        """Stops the follower after any update in progress. The model keeps its state."""
        self._is_stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()

    def look(self):
        """Looks for a later state once and returns whether the model was updated."""
        files = self._folder.files()
        found = self._folder.list()
        for saved in reversed(found):
            # A training that returned to an earlier step has its last state there.
            is_last = saved is found[-1]
            if self.step is not None and saved.step < self.step and not is_last:
                return False
            if self._damaged.get(saved.path) == files:  # else a copy may have gone on
                continue
            try:
                manifest_id = Manifest.read(saved.path).id
                if manifest_id == self._id:
                    return False
                self._bring_to(saved.path)
            except FileNotFoundError:  # it or its base was removed since it was listed
                continue
            except CheckpointDamagedError as error:
                if saved.path not in self._damaged:
                    warnings.warn(f"A damaged checkpoint was skipped: {error}", stacklevel=2)
                self._damaged[saved.path] = files
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
            # An interrupted load leaves no state; the next whole one is loaded then.
            self._id = self.step = self.path = None
            load_checkpoint(self._model, path, verify=False, verbose=self._verbose)

    def _run(self):
        while not self._is_stopping.wait(self._every):
            try:
                self.look()
                self.error = None
            except Exception as error:  # the next look may succeed, after a full disk for example
                self.error = error
                warnings.warn(
                    f"A model could not follow its training and will retry: {error!r}",
                    stacklevel=2,
                )
