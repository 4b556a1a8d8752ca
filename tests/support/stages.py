"""Stages of `prefetch_lookups` under test, however their threads are scheduled.

Whether a step finds its lookup ready depends on whether the stage's thread, or the ranks' rounds,
came in time, and so on what else the machine does. A test that counts lookups that were used lets
the stage come first. In one process it can see how far that is (`keep_stages`); ranks train again,
and give it more time (`until_used`).
"""

import contextlib
import gc
import pathlib
import time

import keras

from keras_sparse import native
from keras_sparse.distribute.ranks.collectives import gather_objects

# Seconds. A machine may have much else to do: what takes as long hangs.
LIMIT = 300
# What a step leaves to the stages first, in one training after another.
PATIENCE = (0.0, 0.02, 0.1, 0.4, 1.6)


class Stage(keras.callbacks.Callback):
    """A stage of one process that steps wait for, so that they find what it has made ready.

    As a callback it lets each step wait but the first one of an epoch, which the data only begins
    with.

    Args:
        handle: What `native.create_lookup_stage` gave.
    """

    def __init__(self, handle):
        super().__init__()
        self._handle = handle

    def wait(self, num_batches=1):
        """Returns once so many batches are ready, or in work: a step that asks for one waits."""
        wait_until(lambda: self._state()[2] >= num_batches, f"{num_batches} batches ahead")

    def on_train_batch_begin(self, batch, logs=None):
        if batch > 0:
            left = (self.params["steps"] or 0) - batch
            self.wait(min(self._state()[1], left))

    on_predict_batch_begin = on_train_batch_begin

    def _state(self):
        return native.lookup_stage_state(self._handle).numpy()


def keep_stages(monkeypatch):
    """Returns a list that gets the `Stage` of each call of `prefetch_lookups` from here on."""
    stages, create = [], native.create_lookup_stage

    def create_and_keep(*args):
        stages.append(Stage(create(*args)))
        return stages[-1]._handle

    monkeypatch.setattr(native, "create_lookup_stage", create_and_keep)
    return stages


class Patience(keras.callbacks.Callback):
    """Gives stages of all ranks the same time before each step."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def wait(self):
        time.sleep(self.seconds)

    def on_train_batch_begin(self, batch, logs=None):
        self.wait()


def until_used(train):
    """Trains with ever more patience until the lookups that were staged are used on all ranks.

    What must hold however threads are scheduled, `train` asserts each time.

    Args:
        train: Function of a `Patience`, of a whole training. Returns whether its steps have used as
            many lookups as they are to, on this rank.
    """
    for seconds in PATIENCE:
        if all(gather_objects(train(Patience(seconds)), "used")):
            return
    raise AssertionError(f"too few lookups were used, even by steps that waited {seconds} s")


def wait_until(is_done, what):
    """Returns once `is_done()`; `what` says in words what is waited for."""
    deadline = time.monotonic() + LIMIT
    while not is_done():
        assert time.monotonic() < deadline, f"waited {LIMIT} s for {what}"
        time.sleep(0.002)


def stage_threads():
    """The threads of stages in this process."""
    found = set()
    for task in pathlib.Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # of one that has just ended
            if (task / "comm").read_text().strip() == "lookup_stage":
                found.add(task)
    return found


def wait_for_stage_threads(number, of_others=frozenset()):
    """Returns once there are so many, but for those of others: they begin and end in their time."""

    def are_there():
        gc.collect()
        return len(stage_threads() - of_others) == number

    wait_until(are_there, f"{number} threads of stages")
