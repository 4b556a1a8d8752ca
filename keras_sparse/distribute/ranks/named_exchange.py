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
