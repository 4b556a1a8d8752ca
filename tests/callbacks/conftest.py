import signal

import pytest
import tensorflow as tf


@pytest.fixture
def write_in_the_step(monkeypatch):
    """Or it depends on the threads what is read before it is written."""
    monkeypatch.setenv("KERAS_SPARSE_EVICTION_THREADS", "0")


@pytest.fixture
def handlers_of_before():
    """Installs the handlers of signals again that were there before a test."""
    numbers = (signal.SIGTERM, signal.SIGUSR1)
    handlers = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def written():
    """Returns `{tag: {step: value}}` of all event files of a folder."""

    def of_all(folder):
        values = {}
        for path in folder.glob("*.tiers*"):
            for tag, steps in _written_in(path).items():
                values.setdefault(tag, {}).update(steps)
        return values

    return of_all


def _written_in(path):
    values = {}
    for event in tf.compat.v1.train.summary_iterator(str(path)):
        for value in event.summary.value:
            values.setdefault(value.tag, {})[event.step] = float(tf.make_ndarray(value.tensor))
    return values
