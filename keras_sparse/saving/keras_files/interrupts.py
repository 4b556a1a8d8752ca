"""Ctrl-C while files are written: it waits for a moment at which they can be left."""

import contextlib
import signal
import threading
from typing import Any

# The handler that Ctrl-C would have had and the signals that wait for it, while it is deferred.
_deferred: tuple[Any, list] | None = None


@contextlib.contextmanager
def deferred_interrupts():
    """While this is entered, Ctrl-C comes at its end, or where `let_interrupt` is called.

    In the middle of a call of HDF5 it would be lost there, or break the file that is open.
    """
    global _deferred
    handler = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if _deferred is not None or not is_main or not callable(handler):
        yield
        return
    waiting: list = []
    signal.signal(signal.SIGINT, lambda *arguments: waiting.append(arguments))
    _deferred = handler, waiting
    try:
        yield
    finally:
        _deferred = None
        signal.signal(signal.SIGINT, handler)
        if waiting:
            handler(*waiting[-1])


def let_interrupt():
    """Does what Ctrl-C does, if it has come since `deferred_interrupts` was entered."""
    if _deferred is None or threading.current_thread() is not threading.main_thread():
        return
    handler, waiting = _deferred
    if waiting:
        arguments = waiting[-1]
        waiting.clear()
        handler(*arguments)
