"""A stage ends with its dataset, however the training on it ends."""

import contextlib
import gc
import os
import pathlib
import signal
import subprocess
import sys
import time

import keras
import pytest

import prefetch_cases as cases
from keras_sparse.data import prefetch_lookups

TESTS = pathlib.Path(__file__).parents[1]


def stage_threads():
    found = set()
    for task in pathlib.Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # of one that has just ended
            if (task / "comm").read_text().strip() == "lookup_stage":
                found.add(task)
    return found


def stage_threads_left(of_others=frozenset()):
    """Those that do not end, but for the ones of others."""
    deadline = time.monotonic() + 30
    while stage_threads() - of_others and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    return stage_threads() - of_others


class Watch(keras.callbacks.Callback):
    """Sees the threads there are while a model is trained, and counts the steps."""

    def __init__(self):
        super().__init__()
        self.threads = set()
        self.steps = 0

    def on_train_batch_end(self, batch, logs=None):
        self.threads |= stage_threads()
        self.steps += 1


class StopAt(keras.callbacks.Callback):
    def __init__(self, batch):
        super().__init__()
        self.batch = batch

    def on_train_batch_end(self, batch, logs=None):
        if batch == self.batch:
            self.model.stop_training = True


def after_two_epochs(monitor):
    return keras.callbacks.EarlyStopping(monitor, min_delta=1e9)  # no epoch is as much better


# Each end, and each way to validate, in both modes.
@pytest.mark.parametrize(
    ("make_callback", "steps", "is_validated", "mode"),
    [
        (lambda: after_two_epochs("loss"), 2 * cases.BATCHES, False, "exact"),
        (lambda: after_two_epochs("val_loss"), 2 * cases.BATCHES, True, "stale"),
        (lambda: StopAt(3), 4, False, "stale"),
        (lambda: StopAt(3), 4, True, "exact"),
    ],
    ids=["early", "early by validation", "half way", "half way with validation"],
)
def test_no_thread_is_left_when_training_stops_early(make_callback, steps, is_validated, mode):
    data, model = cases.make_data(), cases.make_model()
    of_others = stage_threads()  # perhaps of other tests
    watch = Watch()
    model.fit(
        prefetch_lookups(data, model, 2, 4, mode),
        validation_data=prefetch_lookups(data, model, 1, 2, mode) if is_validated else None,
        epochs=9,
        verbose=0,
        shuffle=False,
        callbacks=[make_callback(), watch],
    )
    assert watch.steps == steps
    assert len(watch.threads - of_others) == (3 if is_validated else 2)
    assert stage_threads_left(of_others) == set()


INTERRUPT = """
import signal, sys
import keras
import prefetch_cases as cases
import prefetch_ends_test as test
from keras_sparse.data import prefetch_lookups
from table_twins import small

class CtrlC(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 5:
            print("threads", len(test.stage_threads()), flush=True)
            signal.raise_signal(signal.SIGINT)

def train():
    ahead = prefetch_lookups(cases.make_data(), model, 2, 4, sys.argv[2])
    model.fit(ahead, verbose=0, shuffle=False, callbacks=[CtrlC()])

# Python does not hear it in a process that was started in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
number = iter("ab")
model = cases.make_model(lambda: small(f"{sys.argv[1]}/{next(number)}"))
try:
    train()
except KeyboardInterrupt:
    print("interrupted", flush=True)
print("left", len(test.stage_threads_left()), flush=True)
train()
print("not interrupted", flush=True)
"""


@pytest.mark.parametrize("mode", ["exact", "stale"])
def test_a_process_that_is_interrupted_ends(mode, tmp_path):
    paths = [str(TESTS / "support"), str(TESTS / "data"), *filter(None, sys.path)]
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPT, str(tmp_path), mode],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        said = [process.stdout.readline() for _ in range(4)]
        begin = time.monotonic()
        _, errors = process.communicate(timeout=60)
        seconds = time.monotonic() - begin
    finally:
        process.kill()
        process.communicate()
    assert said == ["threads 2\n", "interrupted\n", "left 0\n", "threads 2\n"], errors
    assert process.returncode == -signal.SIGINT
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert seconds < 30  # on a machine that may have much else to do
    assert list(tmp_path.rglob("*.seg")) == []
