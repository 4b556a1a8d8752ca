import atexit
import threading
import weakref

from keras_sparse.distribute.runtime import horovod

# How long an ending process waits for a thread.
_SECONDS_TO_LEAVE = 10

_threads: weakref.WeakSet = weakref.WeakSet()


class ExchangeThread(threading.Thread):
    """A thread beside the steps that waits for other ranks.

    A process that ends does not wait for what it does, which other ranks may never end.

    Args:
        name: String.
    """

    def __init__(self, name):
        super().__init__(name=name, daemon=True)
        _threads.add(self)

    def leave(self):
        """Lets it end, as the process does. What it waits for in an exchange is an error by now."""
        raise NotImplementedError


@atexit.register
def _leave():
    """Ends the threads before Python does: none must come back to it afterwards."""
    alive = [thread for thread in _threads if thread.is_alive()]
    if not alive:
        return
    horovod().shutdown()
    for thread in alive:
        thread.leave()
        thread.join(_SECONDS_TO_LEAVE)
