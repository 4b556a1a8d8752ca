import os
import pathlib
import re
import shutil
import warnings

import keras

from keras_sparse import checks
from keras_sparse.saving.checkpoint_manifest import NAME as MANIFEST
from keras_sparse.saving.checkpoint_writer import remove_partial
from keras_sparse.saving.load_checkpoint import load_checkpoint
from keras_sparse.saving.save_checkpoint import save_checkpoint
from keras_sparse.saving.save_delta import save_delta

_NAMES = re.compile(r"step-(\d{9,})(-delta)?")


class Checkpoint(keras.callbacks.Callback):
    """Saves checkpoints while a model trains, and goes on from the last one.

    Checkpoints are folders `step-000001000` below `path`, deltas `step-000001100-delta`, named
    after the optimizer's steps. The first training loads the last one there, if that is ahead of
    the model, and begins with the epoch that it was saved in; so the same script, run again, goes
    on where it was cut off. A damaged one is put aside under a name that ends in `.damaged`, and
    the one before it is loaded. Of an epoch that was cut off, all batches come again.

    Args:
        path: Folder for the checkpoints, made if it is not there.
        every_steps: Integer: a checkpoint is saved when the optimizer's steps come to a multiple of
            it. Defaults to `None`, at the end of each epoch. One more is saved when training ends.
        keep: Integer: how many checkpoints stay; older ones are removed, with their deltas.
            Defaults to `None`, all.
        delta_every: Integer: a delta is saved when the steps come to a multiple of it, for the
            first time a checkpoint. Defaults to `None`, no deltas.
        resume: Boolean. Whether to go on from what is at `path`. `False` refuses a folder with
            checkpoints in it. Defaults to `True`.
        verbose: Boolean. Whether to show a bar where saving takes long. Defaults to `True`.

    Example:
    >>> import tempfile
    >>> callback = keras_sparse.callbacks.Checkpoint(tempfile.mkdtemp(), every_steps=2, keep=2)
    >>> model.compile(keras_sparse.optimizers.Adagrad(), loss="mse")
    >>> ids = np.array([[1, 2], [2, 3]])
    >>> history = model.fit(ids, np.ones((2, 1)), verbose=0, callbacks=[callback])
    """

    def __init__(
        self, path, every_steps=None, keep=None, delta_every=None, resume=True, verbose=True
    ):
        super().__init__()
        self.path = pathlib.Path(os.fspath(path))
        self.every_steps = checks.positive_or_none(every_steps, "every_steps")
        self.keep = checks.positive_or_none(keep, "keep")
        self.delta_every = checks.positive_or_none(delta_every, "delta_every")
        self.resume = checks.boolean(resume, "resume")
        self.verbose = checks.boolean(verbose, "verbose")
        if every_steps is not None and delta_every is not None and delta_every >= every_steps:
            raise ValueError(
                "`delta_every` must be below `every_steps`: deltas are saved between checkpoints. "
                f"Received: delta_every={delta_every}, every_steps={every_steps}"
            )
        self._epoch = 0
        self._batch = 0
        self._saved_step = 0  # of the last checkpoint or delta
        self._checkpoint_step = 0
        self._has_checkpoint = False  # that a delta may go on from

    def on_train_begin(self, logs=None):
        if self.model.optimizer is None:
            raise ValueError(
                "Checkpoint must be given to a model with an optimizer, whose steps it counts. "
                f"Received: model '{self.model.name}' without one"
            )
        self.path.mkdir(parents=True, exist_ok=True)
        self._clean_up()
        saved = _list(self.path)
        if saved and not self.resume:
            raise ValueError(
                "`path` must be a folder without checkpoints if `resume` is off. Give another "
                f"one, or remove them. Received: path='{self.path}' with {len(saved)} checkpoints"
            )
        self._saved_step = self._checkpoint_step = self._step()
        if saved and max(saved)[0] > self._step():
            self._resume()

    def _resume(self):
        if not self.model.built:
            raise ValueError(
                "Checkpoint must be given to a built model, so that there are variables to load. "
                f"Call the model once before `fit`. Received: unbuilt model '{self.model.name}'"
            )
        saved = sorted(_list(self.path))
        while saved and saved[-1][0] > self._step():
            _, is_delta, path = saved.pop()
            try:
                info = load_checkpoint(self.model, path, verbose=self.verbose)
            except (FileNotFoundError, ValueError) as error:
                path.rename(path.with_name(f"{path.name}.damaged"))
                warnings.warn(f"A checkpoint was put aside: {error}", stacklevel=2)
                continue
            self.model._initial_epoch = info.training.get("epoch", 0)  # as BackupAndRestore does
            self._saved_step = info.step
            earlier = [step for step, delta, _ in saved if not delta]
            self._checkpoint_step = max(earlier, default=0) if is_delta else info.step
            self._has_checkpoint = True
            return

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch, self._batch = epoch, 0

    def on_train_batch_end(self, batch, logs=None):
        self._batch = batch + 1
        if self._batch == self.params.get("steps"):
            self._epoch, self._batch = self._epoch + 1, 0
        step = self._step()
        if _passed_multiple(self.every_steps, self._checkpoint_step, step):
            self._save()
        elif _passed_multiple(self.delta_every, self._saved_step, step):
            self._save(is_delta=True)

    def on_epoch_end(self, epoch, logs=None):
        self._epoch, self._batch = epoch + 1, 0
        if self.every_steps is None:
            self._save()

    def on_train_end(self, logs=None):
        self._save()

    def _save(self, is_delta=False):
        step = self._step()
        if step == self._saved_step and (is_delta or step == self._checkpoint_step):
            return
        is_delta = is_delta and self._has_checkpoint
        path = self.path / f"step-{step:09d}{'-delta' if is_delta else ''}"
        training = {"epoch": self._epoch, "batch": self._batch}
        save = save_delta if is_delta else save_checkpoint
        save(self.model, path, training, self.verbose)
        self._saved_step = step
        if not is_delta:
            self._checkpoint_step = step
            self._has_checkpoint = True
            self._remove_old()

    def _remove_old(self):
        saved = sorted(_list(self.path))
        kept = [step for step, is_delta, _ in saved if not is_delta][-(self.keep or len(saved)) :]
        for step, _, path in saved:
            if step < kept[0]:
                # Without its manifest it is no checkpoint any more, should this be cut off.
                (path / MANIFEST).unlink()
                shutil.rmtree(path, ignore_errors=True)

    def _clean_up(self):
        """Removes what a process that was killed has left half written or half removed."""
        remove_partial(self.path)
        for path in self.path.iterdir():
            if _NAMES.fullmatch(path.name) and not (path / MANIFEST).exists():
                shutil.rmtree(path, ignore_errors=True)

    def _step(self):
        return int(self.model.optimizer.iterations)


def _passed_multiple(number, before, now):
    """Whether there is a multiple of a number, if it is not `None`, after `before` up to `now`."""
    return number is not None and now // number > before // number


def _list(folder):
    """Returns `(step, is_delta, path)` of each checkpoint in a folder."""
    matches = ((_NAMES.fullmatch(path.name), path) for path in folder.iterdir())
    return [(int(match[1]), match[2] is not None, path) for match, path in matches if match]
