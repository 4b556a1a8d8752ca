import atexit
import sys
import threading
import time
import weakref

from keras_sparse.distribute.ranks.runtime import horovod

# How long an ending process waits for the other ranks to end too, and how long then for a thread.
_SECONDS_TO_CLOSE = 5
_SECONDS_TO_LEAVE = 10

_threads: weakref.WeakSet = weakref.WeakSet()
_shutting_down = threading.Lock()


class ExchangeThread(threading.Thread):
    """A thread beside the steps that waits for other ranks.

    A process that ends waits for a short time only for what it does, which other ranks may never
    end.

    Args:
        name: String.
    """

    def __init__(self, name):
        super().__init__(name=name, daemon=True)
        # Anew, as what is registered last is called first: before what Horovod has registered, and
        # before the end of the tables that this thread reads.
        atexit.unregister(_leave)
        atexit.register(_leave)
        _threads.add(self)

    def close(self):
        """Lets it end with those of the other ranks, which until then may wait for it."""
        raise NotImplementedError

    def leave(self):
        """Lets it end, as the process does. What it waits for in an exchange is an error by now."""
        raise NotImplementedError


def shut_down():
    """Ends Horovod; what waits in an exchange is an error then. Any thread may call it."""
    with _shutting_down:  # two at once would wait for one thread of Horovod's, and for good
        horovod().shutdown()


def _leave():
    """Ends the threads before Python does: none must come back to it afterwards."""
    if not hasattr(sys, "last_value"):  # an error ends this rank, and the others should know soon
        _close_together()
    alive = _alive()
    if not alive:
        return
    shut_down()
    for thread in alive:
        thread.leave()
        thread.join(_SECONDS_TO_LEAVE)


def _close_together():
    """Where all ranks come to their end, leaves no exchange open that would fail in the log."""
    alive = _alive()
    for thread in alive:
        thread.close()
    ends_at = time.monotonic() + _SECONDS_TO_CLOSE
    for thread in alive:
        thread.join(max(0, ends_at - time.monotonic()))


def _alive():
    return [thread for thread in _threads if thread.is_alive()]
