import contextlib
import math
import pathlib
import time
import warnings
from typing import Any

import keras

from keras_sparse import native
from keras_sparse.callbacks.check_built import check_built
from keras_sparse.callbacks.data_position import DataPosition
from keras_sparse.callbacks.data_position import position_of
from keras_sparse.callbacks.resume_messages import say_place
from keras_sparse.callbacks.resume_messages import warn_if_loaded_by_hand
from keras_sparse.callbacks.stop_signal import StopSignal
from keras_sparse.distribute.ranks.collectives import broadcast_object
from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.ranks.shared_errors import errors_on_all_ranks
from keras_sparse.launcher.reports import report
from keras_sparse.optimizers.support.step_count import accumulation
from keras_sparse.optimizers.support.step_count import set_iterations
from keras_sparse.saving.checkpoint.checkpoint_folder import CheckpointFolder
from keras_sparse.saving.checkpoint.checkpoint_manifest import Manifest
from keras_sparse.saving.checkpoint.load_checkpoint import load_checkpoint
from keras_sparse.saving.checkpoint.loaded_state import loaded_step
from keras_sparse.saving.checkpoint.save_checkpoint import save_checkpoint
from keras_sparse.saving.checkpoint.save_delta import find_base
from keras_sparse.saving.checkpoint.save_delta import save_delta
from keras_sparse.saving.checkpoint.whole_checkpoint import latest_checkpoint
from keras_sparse.saving.checkpoint.whole_checkpoint import put_damaged_aside
from keras_sparse.tables.embedding_variable import tables_of
from keras_sparse.utils import checks


class Checkpoint(keras.callbacks.Callback):
    """Saves checkpoints during training and resumes from the latest one.

    Checkpoints are folders `step-000001000` inside `path`, and deltas are folders
    `step-000001100-delta`. The number is the optimizer's step; a second checkpoint of a step is
    `step-000001000-2`. The first training with the callback loads the latest checkpoint or delta if
    it is ahead of the model, and continues with the batch after it. So the same script, run again,
    resumes where it stopped. If that training had already completed, `fit` warns and returns
    without a step. A damaged checkpoint is renamed to end in `.damaged`, and the one before it is
    loaded.

    To train on new data, give each run its own `path` and the previous one as `begin_from`; the
    guide "Train on each day's data" shows the script.

    A resumed training reads the batches that were already trained on once more and skips them: no
    step and no other callback sees them. The result is bit for bit that of an uninterrupted
    training if the data gives the same batches again. An order that is drawn anew in each epoch, as
    by `shuffle` of `tf.data` and of `fit`, differs in a new process: the callback warns
    if it sees such a `shuffle`, and the guide "Resume in the middle of an epoch" shows how to draw
    the order from the epoch number. Metrics of a resumed
    epoch cover the rest of the epoch.

    The model must be built before `fit`, as a functional model is. Call a model of your own class
    on one batch first.

    On several ranks, pass the callback to `fit` on all ranks with a `path` that all ranks see. Rank
    0 decides what is loaded, saved and removed. A training can resume on another number of ranks.

    Args:
        path: Folder of the checkpoints; created if missing.
        every_steps: Integer. Saves a checkpoint each time the optimizer's steps reach a multiple of
            it, and at the end of training if anything changed since. Defaults to `None`: at the end
            of each epoch.
        keep: Integer. Number of checkpoints to keep; older ones are removed with their deltas.
            Defaults to `None`: all.
        delta_every: Integer below `every_steps`. Saves a delta each time the optimizer's steps
            reach a multiple of it. If there is no base in `path`, for the first save or after the
            model was saved elsewhere, a checkpoint is saved instead. Defaults to `None`: no deltas.
        resume: Boolean. Whether to resume from the checkpoints in `path`. If `False`, a folder with
            checkpoints raises `ValueError`. Defaults to `True`.
        verbose: Boolean. Whether to show a progress bar if saving or skipping batches takes long,
            and to print where training resumes. Defaults to `True`.
        skip_batches: Boolean. Whether a resumed training skips the batches that it has trained on:
            those of its epoch and, if the data continues over epochs, as with `steps_per_epoch`,
            all batches before. Pass `False` for data that starts at the batch `first_batch` by
            itself, or that has no start, such as a stream. Epochs end at the same batch in both
            cases. Defaults to `True`.
        links: Boolean. Whether checkpoints and deltas hard-link the files of unchanged rows. If
            `False`, each checkpoint writes all rows, so that no file contains rows that were erased
            before. Defaults to `True`.
        begin_from: Path of a checkpoint, or of a folder to use its latest one. The model is loaded
            from it while `path` has no checkpoint. Epochs and batches then count from 0, and steps
            continue from the loaded one. Defaults to `None`: training begins with the model as it
            is.
        on_signal: Name of a signal, such as `"SIGTERM"`, or list of names. If one arrives during
            `fit`, all ranks finish the same step, save, and end with exit status 75. The same
            script, run again, resumes. Defaults to `None`: signals act as without the callback.

    Attributes:
        first_batch: Integer. The batch that the data must start with if `skip_batches=False`,
            counted from the start of the data: 0, or the batch after those that were trained on. It
            can be read before and during `fit`, and is 0 once the data starts again.

    Raises:
        ValueError: An argument is out of its range; `delta_every` is not below `every_steps`; or
            `begin_from` is `path` or in it. When training begins, if the model has no optimizer, or
            is not built with `resume=True` or `begin_from`.
        RuntimeError: With `on_signal`, `fit` is not called in the main thread.

    Example:
    >>> import tempfile
    >>> callback = keras_sparse.callbacks.Checkpoint(tempfile.mkdtemp(), every_steps=2, keep=2)
    >>> model.compile(keras_sparse.optimizers.Adagrad(), loss="mse")
    >>> ids = np.array([[1, 2], [2, 3]])
    >>> history = model.fit(ids, np.ones((2, 1)), verbose=0, callbacks=[callback])
    """

    def __init__(
        self,
        path,
        every_steps=None,
        keep=None,
        delta_every=None,
        resume=True,
        verbose=True,
        skip_batches=True,
        links=True,
        begin_from=None,
        on_signal=None,
    ):
        super().__init__()
        self.path = pathlib.Path(checks.folder(checks.local_path(path, "path"), "path"))
        self.every_steps = checks.positive_or_none(every_steps, "every_steps")
        self.keep = checks.positive_or_none(keep, "keep")
        self.delta_every = checks.positive_or_none(delta_every, "delta_every")
        self.resume = checks.boolean(resume, "resume")
        self.verbose = checks.boolean(verbose, "verbose")
        self.skip_batches = checks.boolean(skip_batches, "skip_batches")
        self.links = checks.boolean(links, "links")
        self.begin_from = begin_from
        if begin_from is not None:
            self.begin_from = pathlib.Path(checks.local_path(begin_from, "begin_from")).absolute()
            if self.path.absolute() in (self.begin_from, self.begin_from.parent):
                raise ValueError(
                    "`begin_from` must be in another folder than `path`, which holds the "
                    f"checkpoints of this training. Received: path='{path}', "
                    f"begin_from='{begin_from}'"
                )
        if every_steps is not None and delta_every is not None and delta_every >= every_steps:
            raise ValueError(
                "`delta_every` must be below `every_steps`: deltas are saved between checkpoints. "
                f"Received: delta_every={delta_every}, every_steps={every_steps}"
            )
        self._stop_signal = StopSignal(on_signal)
        self._folder: Any = None  # a `CheckpointFolder` once training begins
        self._is_first = True  # training with this callback
        self._epoch, self._batch = 0, 0  # how many batches of the epoch were trained on
        self._position: Any = None  # a `DataPosition` while a training runs
        self._batch_position: Any = None  # the position after the last batch
        self._checkpoint_step = 0
        self._saved: Any = None  # `_state` at the last checkpoint or delta
        self._saved_path: Any = None
        self._place: Any = None  # the training dict, once a checkpoint or delta was saved in it
        self._first_batch: Any = None

    @property
    def first_batch(self):
        if self._first_batch is None:
            last = latest_checkpoint(self.path) if self.resume else None
            training = {} if last is None else Manifest.read(last).training
            self._first_batch = position_of(training)
        return self._first_batch

    def on_train_begin(self, logs=None):
        if self.model.optimizer is None:
            raise ValueError(
                "Checkpoint must be given to a model with an optimizer, whose steps it counts. "
                f"Received: model '{self.model.name}' without one"
            )
        if self.resume or self.begin_from:
            purpose = "the same script, run again, has variables to load"
            check_built(self.model, "Checkpoint", purpose)
        with errors_on_all_ranks("checkpoint_folder"):
            self._folder = CheckpointFolder(self.path, is_cleaned=rank() == 0)
        saved = broadcast_object(self._folder.list(), 0, "checkpoint_folder.list")
        with errors_on_all_ranks("checkpoint_folder.check_seen"):
            self._folder.check_seen(saved)
        if saved and not self.resume:
            raise ValueError(
                "`path` must be a folder without checkpoints if `resume` is off. Use another "
                f"folder, or remove the checkpoints. Received: path='{self.path}' with "
                f"{len(saved)} checkpoints"
            )
        self._saved = self._place = None
        self._batch, self._position, self._batch_position = 0, DataPosition(self.model), None
        self._stop_signal.begin(self._position)
        self._checkpoint_step, self._reported_at = self._step(), -math.inf  # seconds
        told, self._first_batch = self._first_batch, 0
        self._begin(saved)
        if self._is_first and self._position.is_known:
            with errors_on_all_ranks("checkpoint.first_batch"):
                self._check_first_batch(told)
        self._is_first = False

    def _check_first_batch(self, told):
        if told not in (None, self._first_batch):
            raise RuntimeError(
                "`first_batch` must match the checkpoint that training resumes from. Let the "
                "callback load that checkpoint, and run again if a damaged one was renamed. "
                f"Received: first_batch={told}, training resumes with {self._first_batch}"
            )

    def _begin(self, saved):
        """Loads the checkpoint that training resumes or begins from, if there is one."""
        if saved and self._is_ahead(saved[-1]):
            if not self._is_first:
                raise ValueError(
                    "Checkpoint must be given to a model with at least the steps of the "
                    "checkpoints at `path`; a model that was compiled again counts its steps "
                    f"anew. Use a new callback and folder. Received: path='{self.path}' with a "
                    f"checkpoint of step {saved[-1].step}, model at step {self._step()}"
                )
            self._resume(saved)
        elif self._is_first and saved:
            if rank() == 0 and loaded_step(self.model) == saved[-1].step:
                warn_if_loaded_by_hand(saved[-1], self.path)
        elif self._is_first and self.begin_from:
            info = self._load(self.begin_from)
            self._checkpoint_step = self._step()
            if self.verbose and rank() == 0:
                print(f"Starting from {info.path}")

    def _is_ahead(self, saved):
        """Returns whether a `SavedStep` has more steps than the model."""
        if saved.step != self._step():
            return saved.step > self._step()
        return saved.training().get("accumulated", 0) > self._accumulated()

    def _load(self, path, verify=True):
        info = load_checkpoint(self.model, path, verify=verify, verbose=self.verbose)
        set_iterations(self.model.optimizer, info.step)  # also for another optimizer
        return info

    def _resume(self, saved):
        while saved and self._is_ahead(saved[-1]):
            last = saved.pop()
            if put_damaged_aside(last.path, self._folder, self.verbose):
                continue
            # Later errors concern the model, so an older checkpoint would not help.
            training = self._load(last.path, verify=False).training
            # Rank 0 may have written it anew, which other hosts see later.
            self._go_to(broadcast_object(training, 0, "checkpoint.training"))
            self.model._initial_epoch = self._epoch  # as BackupAndRestore does
            checkpoints = [each.step for each in (*saved, last) if not each.is_delta]
            self._checkpoint_step = max(checkpoints, default=0)
            self._saved, self._saved_path = self._state(), last.path
            self._report("resumed")
            if rank() == 0:
                epochs = (self.params or {}).get("epochs", math.inf)
                say_place(last, self.path, self._epoch, self._batch, epochs, self.verbose)
            return
        if not saved:
            raise RuntimeError(
                "Checkpoint must find a whole checkpoint to resume from. All were damaged and "
                "renamed; train again to start anew, or restore one. Received: "
                f"path='{self.path}'"
            )

    def _go_to(self, training):
        self._epoch, self._batch = training.get("epoch", 0), training.get("batch", 0)
        position = position_of(training)
        if self._position.is_known:
            is_shown = self.verbose and rank() == 0
            self._position.go_to(self._batch, position, self.skip_batches, is_shown)
            self._batch_position = self._first_batch = position
            if self.skip_batches and position and rank() == 0:
                self._position.warn_of_random_order(self._epoch, self._batch, position)
        elif self._batch:
            warnings.warn(
                "Checkpoint must be given to Keras' own `fit` to resume in the middle of an "
                f"epoch. All batches of epoch {self._epoch + 1} are trained again",
                stacklevel=2,
            )
            self._batch = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.model._initial_epoch = None  # or each later `fit` began there
        self._epoch = epoch
        if self._position.now(is_epoch_over=True) == 0:
            self._first_batch = 0
        self._stop_if(self._stop_signal.agreed)

    def on_train_batch_begin(self, batch, logs=None):
        # Other callbacks may have evicted rows since the last step was saved. A training that
        # resumes after that step would keep them.
        place, self._place = self._place, None
        # Nor does a signal stop before other callbacks have seen the end of the step.
        self._stop_if(self._stop_signal.agreed, place)
        if place is not None and not self._is_saved():
            self._save_as(place, is_delta=True)

    def on_train_batch_end(self, batch, logs=None):
        self._batch, self._place = batch + 1, None
        self._batch_position = self._position.now(is_epoch_over=False)
        step = self._step()
        saved_step = self._checkpoint_step if self._saved is None else self._saved[0]
        if _passed_multiple(self.every_steps, self._checkpoint_step, step):
            self._save()
        elif _passed_multiple(self.delta_every, saved_step, step):
            self._save(is_delta=True)
        if self._after_step():
            self._place = self._training()  # the next batch is taken before it begins

    def on_test_begin(self, logs=None):
        self._stop_signal.begin_phase()
        self._stop_in_validation(self._stop_signal.agreed)

    def on_test_end(self, logs=None):
        self._stop_signal.begin_phase()

    def on_test_batch_end(self, batch, logs=None):
        if self._position is not None:  # or no `fit` runs
            self._stop_in_validation(self._after_step())

    def _after_step(self):
        received = self._stop_signal.after_step()
        if received or time.monotonic() - self._reported_at >= 1:
            self._reported_at = time.monotonic()
            self._report("step")
        return received

    def _stop_in_validation(self, received):
        if received is not None:
            self._end_epoch(self._epoch)
            self._stop_if(received)

    def _stop_if(self, received, place=None):
        """Saves and ends the process if a signal was received."""
        if received is None:
            return
        self._save(place=place)
        self._stop_signal.exit(self._step(), received, self._saved_path, self.verbose)

    def _end_epoch(self, epoch):
        if not self._is_cut_off():  # or the next training resumes in it
            self._epoch, self._batch = epoch + 1, 0
        if self._place is not None:
            self._place = self._training()

    def on_epoch_end(self, epoch, logs=None):
        self._end_epoch(epoch)
        if self.every_steps is None:
            self._save()
        elif self._is_saved():
            self._write_training(self._training())

    def on_train_end(self, logs=None):
        self.model._initial_epoch = None
        self._save()
        self._report("finished")
        self._stop_if(self._stop_signal.agreed or self._stop_signal.after_training())
        self._position = None  # it has the data

    def _is_cut_off(self):
        """Returns whether training was stopped before the last batch of the epoch."""
        num_batches = self._num_batches()
        if num_batches is None:
            num_batches = math.inf if self._position.is_known else 0
        # Where the data has ended first, one more was asked for.
        has_ended = self._position.now(is_epoch_over=False) != self._batch_position
        return self.model.stop_training and self._batch < num_batches and not has_ended

    def _save(self, is_delta=False, place=None):
        self._place = place or self._training()
        if self._is_saved():
            self._write_training(self._place)
        else:
            self._save_as(self._place, is_delta)

    def _save_as(self, training, is_delta):
        step = self._step()
        # Of this step something may be saved: rows were evicted since, or gradients accumulated.
        is_again = any(each.step == step for each in self._folder.list())
        is_delta = broadcast_object(is_delta or is_again, 0, "checkpoint.is_again")
        base = find_base(self.model) if is_delta else None
        is_delta = base is not None and pathlib.Path(base.path).parent == self._folder.path
        save = save_delta if is_delta else save_checkpoint
        name = broadcast_object(self._folder.new_name(step, is_delta), 0, "checkpoint.name")
        path = self._folder.path / name
        save(self.model, path, training, self.verbose, self.links)
        self._saved, self._saved_path = self._state(), path
        self._report("saved", path=str(path))
        if not is_delta:
            self._checkpoint_step = step
            if self.keep is not None and rank() == 0:
                self._folder.remove_old(self.keep)

    def _report(self, event, **facts):
        if rank() == 0:
            report(event, step=self._step(), **facts)

    def _write_training(self, training):
        """The epoch may have ended since the checkpoint was saved."""
        if rank() != 0:
            return
        with contextlib.suppress(FileNotFoundError):  # it may have been removed
            Manifest.read(self._saved_path).replace_training(self._saved_path, training)

    def _training(self):
        epoch, batch = self._epoch, self._batch
        num_batches = self._num_batches()
        if num_batches is not None and batch >= num_batches:
            epoch, batch = epoch + 1, 0
        training = {"epoch": epoch, "batch": batch}
        if accumulated := self._accumulated():
            training["accumulated"] = accumulated
        position = self._position.now(is_epoch_over=batch == 0)
        return training if position is None else {**training, "position": position}

    def _num_batches(self):
        """Returns the number of batches of an epoch, or `None` if unknown."""
        return (self.params or {}).get("steps")  # a custom loop may pass no parameters

    def _is_saved(self):
        """Returns whether all ranks are as they were saved: the same on all."""
        return all(gather_objects(self._saved == self._state(), "checkpoint.is_saved"))

    def _state(self):
        """Returns the optimizer's steps, accumulated steps, and versions of the tables."""
        tables = tables_of(self.model)
        versions = native.snapshot_versions(tables)[0].numpy().tolist() if tables else []
        return self._step(), self._accumulated(), versions

    def _step(self):
        return int(self.model.optimizer.iterations)

    def _accumulated(self):
        """Returns how many steps were accumulated since the last update."""
        steps, count = accumulation(self.model.optimizer)
        return count % steps


def _passed_multiple(number, before, now):
    """Returns whether a multiple of `number` is in `(before, now]`."""
    return number is not None and now // number > before // number
