import atexit
import threading
import weakref

from keras_sparse.distribute.ranks.runtime import horovod

# How long an ending process waits for a thread.
_SECONDS_TO_LEAVE = 10

_threads: weakref.WeakSet = weakref.WeakSet()
_shutting_down = threading.Lock()


class ExchangeThread(threading.Thread):
    """A thread beside the steps that waits for other ranks.

    A process that ends does not wait for what it does, which other ranks may never end.

    Args:
        name: String.
    """

    def __init__(self, name):
        super().__init__(name=name, daemon=True)
        if not _threads:
            # Here, as what is registered last is called first: before what Horovod has registered.
            atexit.register(_leave)
        _threads.add(self)

    def leave(self):
        """Lets it end, as the process does. What it waits for in an exchange is an error by now."""
        raise NotImplementedError


def shut_down():
    """Ends Horovod; what waits in an exchange is an error then. Any thread may call it."""
    with _shutting_down:  # two at once would wait for one thread of Horovod's, and for good
        horovod().shutdown()


def _leave():
    """Ends the threads before Python does: none must come back to it afterwards."""
    alive = [thread for thread in _threads if thread.is_alive()]
    if not alive:
        return
    shut_down()
    for thread in alive:
        thread.leave()
        thread.join(_SECONDS_TO_LEAVE)
