"""A stage ends with its dataset, however the training on it ends."""

import re
import signal
import subprocess

import keras
import numpy as np
import pytest
import tensorflow as tf

import forks
import keras_sparse
import prefetch_cases as cases
from keras_sparse.data import prefetch_lookups
from stages import keep_stages
from stages import LIMIT
from stages import stage_threads
from stages import wait_for_stage_threads
from table_twins import DIM
from table_twins import RECORD_BYTES
from table_twins import small


class Watch(keras.callbacks.Callback):
    """Counts the steps, and waits in the first one until there are so many threads of stages."""

    def __init__(self, num_threads, of_others):
        super().__init__()
        self.expected = num_threads, of_others
        self.steps = 0

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        if self.steps == 1:
            wait_for_stage_threads(*self.expected)


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
    watch = Watch(3 if is_validated else 2, of_others)
    model.fit(
        prefetch_lookups(data, model, 2, 4, mode),
        validation_data=prefetch_lookups(data, model, 1, 2, mode) if is_validated else None,
        epochs=9,
        verbose=0,
        shuffle=False,
        callbacks=[make_callback(), watch],
    )
    assert watch.steps == steps
    wait_for_stage_threads(0, of_others)


INTERRUPT = """
import signal, sys
import keras
import prefetch_cases as cases
from keras_sparse.data import prefetch_lookups
from stages import wait_for_stage_threads
from table_twins import small

class CtrlC(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 5:
            wait_for_stage_threads(2)
            print("interrupts", flush=True)
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
wait_for_stage_threads(0)
print("nothing is left", flush=True)
train()
print("not interrupted", flush=True)
"""


@pytest.mark.slow("starts processes")
@pytest.mark.parametrize("mode", ["exact", "stale"])
def test_a_process_that_is_interrupted_ends(mode, tmp_path):
    process = subprocess.Popen(
        [*forks.python(), "-c", INTERRUPT, str(tmp_path), mode],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        said = [process.stdout.readline() for _ in range(4)]
        _, errors = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
        process.communicate()
    assert said == ["interrupts\n", "interrupted\n", "nothing is left\n", "interrupts\n"], errors
    assert process.returncode == -signal.SIGINT
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert list(tmp_path.rglob("*.seg")) == []


# What a stage cannot read is the error of the step that needs it, and says of which batch.
STRIDE = RECORD_BYTES + 12  # docs/formats/ssdhash.md


def make_model(folder):
    ids = keras.Input((1,), dtype="int64")
    rows = keras_sparse.layers.Embedding(None, DIM, "sum", seed=1, storage=small(folder))(ids)
    kernel = keras.initializers.GlorotUniform(1)
    model = keras.Model(ids, keras.layers.Dense(1, kernel_initializer=kernel)(rows))
    model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse")
    return model


def batches_of(ids, size=20):
    ids = np.reshape(ids, (-1, 1))
    return tf.data.Dataset.from_tensor_slices((ids, np.ones(ids.shape, np.float32))).batch(size)


def flip(path, place):
    """Flips a bit of a byte of a file; again, and it is as before."""
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("place_in_entry", [0, 8, STRIDE - 1], ids=["key", "checksum", "record"])
@pytest.mark.parametrize("mode", ["exact", "stale"])
def test_a_flipped_byte_of_the_disk_is_an_error_that_names_the_batch(
    mode, place_in_entry, tmp_path, monkeypatch
):
    model = make_model(tmp_path)
    (table,) = cases.tables_of(model)
    model.fit(batches_of(np.arange(600), 100), verbose=0, shuffle=False)
    assert table.stats()["tiers"]["SSDHASH"]["rows"] > 0, "and all is written that was to be"
    (path,) = tmp_path.rglob("000000.seg")
    begin = 64 + 5 * STRIDE
    key = int.from_bytes(path.read_bytes()[begin : begin + 8], "little")
    ids = np.arange(5000, 5120)  # new ones, 20 a batch
    ids[67] = key
    before = cases.contents(model)
    flip(path, begin + place_in_entry)
    words = (
        f"batch 3 of prefetch_lookups: .*the entry at byte {begin} of '{re.escape(str(path))}' "
        "must be what was written"
    )
    stages = keep_stages(monkeypatch)
    ahead = prefetch_lookups(batches_of(ids), model, 2, 4, mode)
    with pytest.raises(tf.errors.DataLossError, match=words):
        model.fit(ahead, verbose=0, shuffle=False, callbacks=stages)
    flip(path, begin + place_in_entry)
    after = cases.contents(model)
    assert len(after[0]) == len(before[0]) + 60, "the rows of the three batches before"
    model.fit(ahead, verbose=0, shuffle=False)
    assert table.stats()["rows"] == 600 + 119
