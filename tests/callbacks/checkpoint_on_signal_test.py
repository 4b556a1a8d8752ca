"""A signal during `fit` saves, ends the process, and the next training resumes."""

import contextlib
import functools
import itertools
import json
import os
import signal
import types

import keras
import numpy as np
import pytest

import checkpoint_cases
import keras_sparse
from checkpoint_cases import batches
from checkpoint_cases import content
from checkpoint_cases import dataset_of
from checkpoint_cases import names
from checkpoint_cases import Send
from keras_sparse.callbacks import Checkpoint
from keras_sparse.launcher.reports import MARK
from keras_sparse.optimizers import Adagrad
from keras_sparse.saving import CheckpointInfo
from keras_sparse.saving import latest_checkpoint
from keras_sparse.saving.checkpoint import checkpoint_writer

pytestmark = pytest.mark.usefixtures("handlers_of_before")

# Four batches of 8.
IDS, TARGETS = checkpoint_cases.IDS[:32], checkpoint_cases.TARGETS[:32]
EPOCHS = 3


def make_model(accumulate=None, **options):
    model = checkpoint_cases.make_model(compiled=False)
    optimizer = Adagrad(0.05, gradient_accumulation_steps=accumulate)
    model.compile(optimizer, **{"loss": "mse", "run_eagerly": True, **options})
    optimizer.build(model.trainable_variables)
    return model


def arrays(model):
    return {"x": IDS, "y": TARGETS, "batch_size": 8}


def unknown_length(model):
    return {"x": dataset_of(lambda: batches(number=4))}


def lookups_ahead(model):
    data = keras_sparse.data.prefetch_lookups(dataset_of(batches), model, capacity=3)
    return {"x": data, "steps_per_epoch": 4}


def checkpoint(folder, on_signal="SIGTERM", **options):
    return Checkpoint(folder, on_signal=on_signal, verbose=False, **options)


def train(model, data=arrays, callbacks=(), **options):
    arguments = {"epochs": EPOCHS, "shuffle": False, "verbose": 0, **data(model), **options}
    model.fit(callbacks=list(callbacks), **arguments)


def is_stopped(model, data, callbacks, **options):
    """Trains until a signal ends it, and returns whether it did so with the right status."""
    with pytest.raises(SystemExit) as stopped:
        train(model, data, callbacks, **options)
    return stopped.value.code == 75


@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # Keras' own
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("options", "data", "num_calls"),
    [
        ({}, arrays, 12),
        ({}, unknown_length, 12),
        ({"accumulate": 3}, arrays, 12),
        ({"run_eagerly": False, "steps_per_execution": 3}, arrays, 6),
        ({"run_eagerly": False}, lookups_ahead, 12),
    ],
    ids=["arrays", "unknown length", "accumulation", "executions", "lookups ahead"],
)
def test_ends_as_if_no_signal_had_come(options, data, num_calls, seed, tmp_path):
    train(expected := make_model(**options), data)
    stops = sorted(np.random.default_rng(seed).choice(np.arange(1, num_calls), 3, replace=False))
    for num_steps in np.diff([0, *stops]):
        send = Send("on_train_batch_begin", num_steps)
        assert is_stopped(make_model(**options), data, [checkpoint(tmp_path, keep=1), send])
        # The step in which the signal came was the last one, or was none: the data had ended.
        assert send.num_steps == num_steps or data is unknown_length
    train(model := make_model(**options), data, [checkpoint(tmp_path)])
    assert content(model) == content(expected)


# Of each hook, where the next training begins.
PLACES = [
    ("on_train_begin", 1, (0, 1)),
    ("on_train_batch_begin", 3, (0, 3)),
    ("on_train_batch_end", 3, (1, 0)),  # after the callback has been called for this step
    ("on_test_begin", 1, (1, 0)),
    ("on_test_batch_begin", 2, (1, 0)),
    ("on_test_batch_end", 2, (1, 1)),  # likewise, of the last batch
    ("on_epoch_end", 1, (1, 1)),
    ("on_epoch_begin", 2, (1, 1)),
    ("on_test_batch_begin", 6, (3, 0)),
    ("on_epoch_end", 3, (3, 0)),
]


@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # Keras' own
@pytest.mark.parametrize("data", [arrays, unknown_length])
@pytest.mark.parametrize(("hook", "count", "place"), PLACES)
def test_stops_wherever_a_signal_comes(hook, count, place, data, tmp_path):
    options = {"validation_data": (IDS[:16], TARGETS[:16]), "validation_batch_size": 8}
    send = Send(hook, count)
    assert is_stopped(make_model(), data, [checkpoint(tmp_path), send], **options)
    training = CheckpointInfo.read(latest_checkpoint(tmp_path)).training
    if data is arrays or hook != "on_train_batch_end":  # or its end is not known yet
        assert (training["epoch"], training["batch"]) == place
    is_done = place == (EPOCHS, 0)
    with pytest.warns(match="without a step") if is_done else contextlib.nullcontext():
        train(model := make_model(), data, [checkpoint(tmp_path)], **options)
    assert content(model) == content_of_uncut(data)


@functools.cache
def content_of_uncut(data):
    train(model := make_model(), data)
    return content(model)


def test_an_epoch_that_was_cut_off_before_its_validation_goes_on(tmp_path):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = batch == 1

    callbacks = [checkpoint(tmp_path), Stop(), Send("on_test_begin")]
    assert is_stopped(make_model(), arrays, callbacks, validation_data=(IDS, TARGETS))
    training = CheckpointInfo.read(latest_checkpoint(tmp_path)).training
    assert training == {"epoch": 0, "batch": 2, "position": 2}


def test_a_state_that_is_saved_is_not_saved_again(tmp_path, capsys):
    callback = Checkpoint(tmp_path, every_steps=3, on_signal=["SIGUSR1", "SIGTERM"])
    assert is_stopped(make_model(), arrays, [callback, Send("on_train_batch_begin", 3)])
    assert names(tmp_path) == ["step-000000003"]
    said = f"Stopping after SIGTERM: saved {tmp_path / 'step-000000003'}, run again to resume\n"
    assert capsys.readouterr().out == said


def test_a_second_signal_does_not_cut_off_the_save(tmp_path, monkeypatch):
    def write_manifest(*args):
        sent.append(os.kill(os.getpid(), signal.SIGTERM))
        return of_writer(*args)

    sent, of_writer = [], checkpoint_writer._Written.write_manifest
    monkeypatch.setattr(checkpoint_writer._Written, "write_manifest", write_manifest)
    assert is_stopped(make_model(), arrays, [checkpoint(tmp_path), Send("on_train_batch_begin")])
    assert sent
    assert names(tmp_path) == ["step-000000001"]


@pytest.mark.parametrize("bad", ["SIGKILL", "SIGSTOP", "TERM", 15, signal.SIGTERM, ["SIGTERM", 1]])
def test_other_signals_are_refused(bad, tmp_path):
    with pytest.raises(ValueError, match=r"`on_signal` must be one of \('SIGTERM', 'SIGINT', "):
        Checkpoint(tmp_path, on_signal=bad)


def test_reports_to_a_launcher(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("KERAS_SPARSE_LAUNCHED", "1")
    for count in (3, 2):
        callback = checkpoint(tmp_path, every_steps=2)
        assert is_stopped(make_model(), arrays, [callback, Send("on_train_batch_begin", count)])
    lines = [line for line in capfd.readouterr().out.splitlines() if line.startswith(MARK)]
    facts = [json.loads(line.removeprefix(MARK)) for line in lines]
    paths = [str(tmp_path / f"step-00000000{step}") for step in (2, 3, 4, 5)]
    assert facts == [
        {"event": "step", "step": 1},
        {"event": "saved", "step": 2, "path": paths[0]},
        {"event": "step", "step": 3},
        {"event": "saved", "step": 3, "path": paths[1]},
        {"event": "stopped", "step": 3, "signal": "SIGTERM", "received": True},
        {"event": "resumed", "step": 3},
        {"event": "saved", "step": 4, "path": paths[2]},
        {"event": "step", "step": 4},
        {"event": "step", "step": 5},
        {"event": "saved", "step": 5, "path": paths[3]},
        {"event": "stopped", "step": 5, "signal": "SIGTERM", "received": True},
    ]


def test_reports_steps_in_a_validation_too(tmp_path, monkeypatch, capfd):
    """A launcher takes a training without reports for one that stands still."""
    monkeypatch.setenv("KERAS_SPARSE_LAUNCHED", "1")
    seconds = itertools.count()  # each look at the clock is one later
    clock = types.SimpleNamespace(monotonic=lambda: next(seconds))
    monkeypatch.setattr("keras_sparse.callbacks.checkpoint.time", clock)
    options = {"validation_data": (IDS, TARGETS), "validation_batch_size": 8, "epochs": 1}
    callback = Checkpoint(tmp_path, verbose=False)
    train(model := make_model(), arrays, [callback], **options)
    reported = capfd.readouterr().out.count('"event": "step"')
    assert reported == 4 + 4
    model.evaluate(IDS, TARGETS, callbacks=[callback], verbose=0)
    assert MARK not in capfd.readouterr().out
