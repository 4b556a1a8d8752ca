"""Handlers of signals serve one `fit`, and ranks agree on when to stop."""

import contextlib
import gc
import os
import signal
import threading
import types
import weakref

import keras
import numpy as np
import pytest

from checkpoint_cases import batches
from checkpoint_cases import dataset_of
from checkpoint_cases import fit
from checkpoint_cases import IDS
from checkpoint_cases import make_model
from checkpoint_cases import Send
from checkpoint_cases import TARGETS
from keras_sparse.callbacks import Checkpoint
from keras_sparse.callbacks import stop_signal
from keras_sparse.callbacks.stop_signal import StopSignal

pytestmark = pytest.mark.usefixtures("handlers_of_before")


class Fail(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        raise RuntimeError("the fit fails")


def checkpoint(folder, on_signal="SIGTERM", **options):
    return Checkpoint(folder, on_signal=on_signal, verbose=False, **options)


@pytest.fixture(name="received")
def received_by_a_handler_of_the_program():
    """The signals that reach the handler of SIGUSR1 that the program had before."""
    received = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: received.append(number))
    yield received
    signal.signal(signal.SIGUSR1, before)


def test_a_signal_while_the_program_ends_is_ignored(tmp_path, received):
    model, callbacks = make_model(), [checkpoint(tmp_path, "SIGUSR1")]
    callbacks += [Send("on_train_batch_begin", number=signal.SIGUSR1)]

    def program():
        try:
            fit(model, callbacks)
        finally:
            os.kill(os.getpid(), signal.SIGUSR1)
            with contextlib.suppress(OSError):
                try:
                    raise OSError
                finally:
                    os.kill(os.getpid(), signal.SIGUSR1)

    with pytest.raises(SystemExit):
        program()
    os.kill(os.getpid(), signal.SIGUSR1)  # as while Python waits for threads
    assert not received
    fit(model, callbacks[:1])  # the program has caught it and goes on
    os.kill(os.getpid(), signal.SIGUSR1)
    assert received == [signal.SIGUSR1]


@pytest.mark.parametrize("is_closed", [True, False])
def test_an_output_that_nobody_reads_does_not_change_the_status(is_closed, tmp_path, monkeypatch):
    reader, writer = os.pipe()
    before = os.dup(1)
    os.close(reader)
    os.dup2(writer, 1)
    monkeypatch.setenv("KERAS_SPARSE_LAUNCHED", "1")
    monkeypatch.setattr("sys.stdout", output := os.fdopen(1, "w", closefd=False))
    if is_closed:
        output.close()
    callback = Checkpoint(tmp_path, on_signal="SIGTERM")
    try:
        with pytest.raises(SystemExit) as stopped:
            fit(make_model(), [callback, Send("on_train_batch_begin", 2)])
        output.close()  # raises no error, as when Python ends
    finally:
        os.dup2(before, 1)
        os.close(before)
        os.close(writer)
    assert stopped.value.code == 75


def fit_again(model, callbacks):
    with pytest.raises(RuntimeError, match="the fit fails"):
        fit(model, [*callbacks, Fail()])


def fit_without(model, callbacks):
    fit(model, [Send("on_train_batch_begin", 2, signal.SIGUSR1)])


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
        fit(model, [Fail(), Send("on_epoch_begin", 1, signal.SIGUSR1), callback])
    model.evaluate(IDS, TARGETS, callbacks=[callback], verbose=0)
    fit(model, [callback])
    assert not received


def test_a_fit_that_failed_leaves_its_model_and_data_to_be_freed(tmp_path):
    callback, data, model = checkpoint(tmp_path), dataset_of(batches), make_model()
    with pytest.raises(RuntimeError, match="the fit fails"):
        model.fit(data, shuffle=False, verbose=0, callbacks=[callback, Fail()])
    assert isinstance(signal.getsignal(signal.SIGTERM), stop_signal._Handler)
    known = weakref.ref(model), weakref.ref(data)
    del model, data, callback
    gc.collect()
    assert [each() for each in known] == [None, None]


def test_keyboard_interrupts_after_a_fit_that_failed(tmp_path):
    # A shell lets processes in the background ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    fit_again(make_model(), [checkpoint(tmp_path, "SIGINT")])
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_handler_of_before_comes_back(tmp_path, received):
    handler = signal.getsignal(signal.SIGUSR1)
    for i, on_signal in enumerate(("SIGUSR1", ["SIGUSR1", "SIGUSR1"], None, [])):
        fit(make_model(), [checkpoint(tmp_path / str(i), on_signal)], epochs=1)
        assert signal.getsignal(signal.SIGUSR1) is handler
    callbacks = [checkpoint(tmp_path / name, "SIGUSR1") for name in ("a", "b")]
    for _ in range(2):
        fit_again(model := make_model(), callbacks)
    fit(model, callbacks, epochs=1)
    assert signal.getsignal(signal.SIGUSR1) is handler
    assert not received


def test_a_handler_that_the_program_installs_meanwhile_stays(tmp_path, received):
    class Install(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    fit(make_model(), [checkpoint(tmp_path, "SIGUSR1"), Install()], epochs=1)
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN


def test_a_handler_around_it_reaches_the_program_once_training_has_ended(tmp_path, received):
    class Wrap(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            wrapped = signal.getsignal(signal.SIGUSR1)
            signal.signal(signal.SIGUSR1, lambda number, frame: wrapped(number, frame))

        def on_train_end(self, logs=None):
            os.kill(os.getpid(), signal.SIGUSR1)

    fit(make_model(), [checkpoint(tmp_path, "SIGUSR1"), Wrap()], epochs=1)
    assert received == [signal.SIGUSR1]


def test_a_fit_inside_of_a_fit_goes_on_and_the_outer_one_stops(tmp_path):
    class Inner(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.send = Send("on_train_batch_begin", 2)
            fit(make_model(), [self.send], epochs=1)

    inner, send = Inner(), Send("on_train_begin", 99)
    with pytest.raises(SystemExit):
        fit(make_model(), [checkpoint(tmp_path), inner, send])
    assert inner.send.num_steps == 10
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
    fit(make_model(), [checkpoint(tmp_path), Fork()], epochs=1)
    assert statuses == [-signal.SIGTERM] * 10


def test_needs_the_main_thread_and_a_fit(tmp_path):
    errors = []

    def in_thread():
        with pytest.raises(RuntimeError, match=r"main thread.*in thread 'a thread'") as error:
            fit(make_model(), [checkpoint(tmp_path)])
        errors.append(error)

    thread = threading.Thread(target=in_thread, name="a thread")
    thread.start()
    thread.join()
    assert len(errors) == 1
    loop = keras.callbacks.CallbackList([checkpoint(tmp_path)], model=make_model())
    with pytest.raises(RuntimeError, match="`on_signal` needs Keras' own `fit`"):
        loop.on_train_begin()


MOST_STEPS = 32  # between two agreements


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
        every = min(2 * every, MOST_STEPS)  # rank 0 takes half the time a step
        return [(self.signal_of_rank_0, every), value]


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
    most = min(max(2.0, 2 * seconds), MOST_STEPS * seconds)  # by the clock of rank 0
    assert 0.75 * most < max(gaps[8:])
    assert max(gaps) <= most + 1e-9
    assert min(gaps[8:]) >= min(1.0, seconds) - 1e-9
    stop.begin_phase()
    ranks.now += seconds
    num_agreed = len(ranks.agreed)
    assert stop.after_step() is None
    assert len(ranks.agreed) == num_agreed + 1  # at the first step of the validation
    ranks.signal_of_rank_0 = "SIGTERM"
    assert stop.after_training() == "SIGTERM"


@pytest.mark.parametrize(
    ("quick", "num_quick", "slow", "most"), [(1e-6, 5, 0.1, 3.3), (0.01, 1000, 2.0, 64.1)]
)
def test_quick_steps_do_not_put_the_next_agreement_off_for_long(
    quick, num_quick, slow, most, monkeypatch
):
    ranks = Ranks(monkeypatch)
    stop = StopSignal("SIGTERM")
    stop.begin(ranks)
    for seconds in [quick] * num_quick + [slow] * 1000:
        ranks.now += seconds
        stop.after_step()
    assert max(np.diff(ranks.agreed)) < most
    assert len(ranks.agreed) > 20


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
    fit(make_model(), [checkpoint(tmp_path)])
    assert names_of_calls == ["stop_signal"]  # at the end of `fit`
