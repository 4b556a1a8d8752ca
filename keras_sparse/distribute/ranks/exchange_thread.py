import atexit
import sys
import threading
import time
import weakref

import tensorflow as tf

from keras_sparse.distribute.ranks.runtime import horovod


class NamedExchange:
    """An exchange of words under a name that waits for no thread which steps have in use.

    Outside of a function Horovod would know no name, and take what two threads exchange for one
    another's; the ops of a `tf.function` share the threads of a step's, and come behind them. Those
    of a dataset need not.

    It is for threads beside the steps, so that the book of what a rank waits for is without it.

    Args:
        name: As for `alltoall`.
    """

    def __init__(self, name):
        options = tf.data.Options()
        options.threading.private_threadpool_size = 1
        options.autotune.enabled = False
        self._given = given = tf.queue.FIFOQueue(1, [tf.int32, tf.int32])
        exchanges = tf.data.Dataset.counter().map(lambda _: _exchange_next(given, name))
        self._received = iter(exchanges.with_options(options))

    def __call__(self, words, splits):
        """Returns the words of all ranks for this one, and how many are of each, as `alltoall`."""
        self._given.enqueue((words, splits))
        return next(self._received)


def _exchange_next(given, name):
    words, splits = (tf.ensure_shape(each, (None,)) for each in given.dequeue())
    return horovod().alltoall(words, splits, name=name, ignore_name_scope=True)


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
