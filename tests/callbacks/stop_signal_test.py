"""A signal during `fit` saves, ends the process, and the next training resumes."""

import contextlib
import functools
import gc
import json
import os
import signal
import threading
import types
import weakref

import keras
import numpy as np
import pytest

import checkpoint_cases
import keras_sparse
from checkpoint_cases import batches
from checkpoint_cases import content
from checkpoint_cases import dataset_of
from checkpoint_cases import names
from keras_sparse.callbacks import Checkpoint
from keras_sparse.callbacks import stop_signal
from keras_sparse.callbacks.stop_signal import StopSignal
from keras_sparse.launcher.reports import MARK
from keras_sparse.optimizers import Adagrad
from keras_sparse.saving import CheckpointInfo
from keras_sparse.saving import latest_checkpoint
from keras_sparse.saving.checkpoint import checkpoint_writer

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


class Send(keras.callbacks.Callback):
    """Sends a signal to this process in a call of a hook, and counts training calls."""

    def __init__(self, hook, count=1, number=signal.SIGTERM):
        super().__init__()
        self.num_steps = 0
        self._hook, self._count, self._number = hook, count, number
        called = getattr(self, hook)

        def call(*args, **kwargs):
            called(*args, **kwargs)
            self._count -= 1
            if self._count == 0:
                os.kill(os.getpid(), self._number)

        setattr(self, hook, call)

    def on_train_batch_begin(self, batch, logs=None):
        self.num_steps += 1


class Fail(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        raise RuntimeError("the fit fails")


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


@pytest.fixture(name="received")
def received_by_a_handler_of_the_program():
    """The signals that reach the handler of SIGUSR1 that the program had before."""
    received = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: received.append(number))
    yield received
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture(autouse=True)
def _no_handler_is_left():
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)]
    yield
    for number, handler in zip((signal.SIGTERM, signal.SIGUSR1), handlers, strict=True):
        signal.signal(number, handler)


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


def test_a_signal_while_the_program_ends_is_ignored(tmp_path, received):
    callbacks = [checkpoint(tmp_path, "SIGUSR1")]
    callbacks += [Send("on_train_batch_begin", number=signal.SIGUSR1)]

    def program():
        try:
            train(make_model(), arrays, callbacks)
        finally:
            os.kill(os.getpid(), signal.SIGUSR1)
            with contextlib.suppress(OSError):
                try:
                    raise OSError
                finally:
                    os.kill(os.getpid(), signal.SIGUSR1)

    with pytest.raises(SystemExit):
        program()
    assert not received
    os.kill(os.getpid(), signal.SIGUSR1)  # the program has caught it and goes on
    assert received == [signal.SIGUSR1]


def fit_again(model, callbacks):
    with pytest.raises(RuntimeError, match="the fit fails"):
        train(model, callbacks=[*callbacks, Fail()])


def fit_without(model, callbacks):
    train(model, callbacks=[Send("on_train_batch_begin", 2, signal.SIGUSR1)])


def evaluate(model, callbacks):
    os.kill(os.getpid(), signal.SIGUSR1)
    model.evaluate(IDS, TARGETS, callbacks=callbacks, verbose=0)


def nothing(model, callbacks):
    os.kill(os.getpid(), signal.SIGUSR1)


@pytest.mark.parametrize("num_callbacks", [1, 2])
@pytest.mark.parametrize("then", [[nothing], [fit_without], [evaluate], [fit_again, nothing]])
def test_a_fit_that_failed_leaves_signals_to_the_program(then, num_callbacks, tmp_path, received):
    folders = [tmp_path / str(i) for i in range(num_callbacks)]
    callbacks = [checkpoint(folder, "SIGUSR1") for folder in folders]
    handler = signal.getsignal(signal.SIGUSR1)
    fit_again(model := make_model(), callbacks)
    assert signal.getsignal(signal.SIGUSR1) != handler
    for each in then:
        each(model, callbacks)
    assert received == [signal.SIGUSR1]
    os.kill(os.getpid(), signal.SIGUSR1)
    assert received == [signal.SIGUSR1] * 2


def test_a_fit_that_failed_after_a_signal_does_not_stop_the_next_one(tmp_path, received):
    callback = checkpoint(tmp_path, "SIGUSR1")
    model = make_model()
    with pytest.raises(RuntimeError, match="the fit fails"):
        train(model, callbacks=[Fail(), Send("on_epoch_begin", 1, signal.SIGUSR1), callback])
    model.evaluate(IDS, TARGETS, callbacks=[callback], verbose=0)
    train(model, callbacks=[callback])
    assert not received


def test_a_fit_that_failed_leaves_its_model_to_be_freed(tmp_path):
    callback = checkpoint(tmp_path)
    fit_again(model := make_model(), [callback])
    known = weakref.ref(model)
    del model, callback
    gc.collect()
    assert known() is None


def test_keyboard_interrupts_after_a_fit_that_failed(tmp_path):
    fit_again(make_model(), [checkpoint(tmp_path, "SIGINT")])
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_handler_of_before_comes_back(tmp_path, received):
    handler = signal.getsignal(signal.SIGUSR1)
    for i, on_signal in enumerate(("SIGUSR1", ["SIGUSR1", "SIGUSR1"], None, [])):
        train(make_model(), callbacks=[checkpoint(tmp_path / str(i), on_signal)], epochs=1)
        assert signal.getsignal(signal.SIGUSR1) is handler
    assert not received


def test_a_fit_inside_of_a_fit_goes_on_and_the_outer_one_stops(tmp_path):
    class Inner(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.send = Send("on_train_batch_begin", 2)
            train(make_model(), callbacks=[self.send], epochs=1)

    inner, send = Inner(), Send("on_train_begin", 99)
    assert is_stopped(make_model(), arrays, [checkpoint(tmp_path), inner, send])
    assert inner.send.num_steps == 4
    assert send.num_steps == 1


def test_a_forked_process_ends_by_a_signal(tmp_path):
    """As a worker of the data that is told to end; it has the frames of `fit` as well."""

    class Fork(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            child = os.fork()
            if child == 0:
                try:
                    os.kill(os.getpid(), signal.SIGTERM)
                finally:
                    os._exit(0)
            statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    statuses = []
    train(make_model(), callbacks=[checkpoint(tmp_path), Fork()], epochs=1)
    assert statuses == [-signal.SIGTERM] * 4


def test_needs_the_main_thread_and_a_fit(tmp_path):
    errors = []

    def fit():
        with pytest.raises(RuntimeError, match=r"main thread.*in thread 'a thread'") as error:
            train(make_model(), callbacks=[checkpoint(tmp_path)])
        errors.append(error)

    thread = threading.Thread(target=fit, name="a thread")
    thread.start()
    thread.join()
    assert len(errors) == 1
    loop = keras.callbacks.CallbackList([checkpoint(tmp_path)], model=make_model())
    with pytest.raises(RuntimeError, match="`on_signal` needs Keras' own `fit`"):
        loop.on_train_begin()


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
        {"event": "saved", "step": 3, "path": paths[1]},
        {"event": "stopped", "step": 3, "signal": "SIGTERM"},
        {"event": "resumed", "step": 3},
        {"event": "saved", "step": 4, "path": paths[2]},
        {"event": "step", "step": 4},
        {"event": "saved", "step": 5, "path": paths[3]},
        {"event": "stopped", "step": 5, "signal": "SIGTERM"},
    ]


class Ranks:
    """Ranks of which this one is number 1, and a clock that steps advance."""

    def __init__(self, monkeypatch):
        self.now, self.agreed, self.signal_of_rank_0 = 0.0, [], None
        self.is_running = lambda frame: True
        self.is_known = True
        monkeypatch.setattr(stop_signal, "size", lambda: 2)
        monkeypatch.setattr(stop_signal, "check_agreement", lambda *args: None)
        monkeypatch.setattr(stop_signal, "gather_objects", self.gather)
        clock = types.SimpleNamespace(monotonic=lambda: self.now)
        monkeypatch.setattr(stop_signal, "time", clock)

    def gather(self, value, name):
        self.agreed.append(self.now)
        _, every = value
        return [(self.signal_of_rank_0, 2 * every), value]  # rank 0 takes half the time a step


@pytest.mark.parametrize("seconds", [1e-4, 0.01, 0.3, 5.0])
def test_ranks_agree_about_once_a_second(seconds, monkeypatch):
    ranks = Ranks(monkeypatch)
    stop = StopSignal("SIGTERM")
    stop.begin(ranks)
    for _ in range(20 + int(30 / seconds)):
        ranks.now += seconds
        assert stop.after_step() is None
    gaps = np.diff(ranks.agreed)
    assert ranks.agreed[0] == seconds  # at the first step
    assert max(gaps) <= max(2.0, 2 * seconds) + 1e-9  # by the clock of rank 0
    assert min(gaps[8:]) >= min(1.0, seconds)
    stop.begin_validation()
    ranks.now += seconds
    num_agreed = len(ranks.agreed)
    assert stop.after_step() is None
    assert len(ranks.agreed) == num_agreed + 1  # at the first step of the validation
    ranks.signal_of_rank_0 = "SIGTERM"
    assert stop.after_training() == "SIGTERM"


def test_all_get_the_signal_of_one_rank_at_the_same_step(monkeypatch):
    ranks = Ranks(monkeypatch)
    stop = StopSignal(["SIGTERM", "SIGUSR1"])
    stop.begin(ranks)
    told = []
    for step in range(100):
        ranks.now += 0.1
        if step == 50:
            os.kill(os.getpid(), signal.SIGUSR1)
        told.append(stop.after_step())
        if told[-1]:
            break
    assert told[:-1] == [None] * step
    assert told[-1] == "SIGUSR1"
    assert ranks.now == ranks.agreed[-1]
    assert 50 <= step < 70


def test_makes_no_exchange_in_one_process(tmp_path, monkeypatch):
    def gather(value, name):
        names_of_calls.append(name)
        return [value]

    names_of_calls = []
    monkeypatch.setattr(stop_signal, "gather_objects", gather)
    train(make_model(), callbacks=[checkpoint(tmp_path)])
    assert names_of_calls == ["stop_signal"]  # at the end of `fit`
