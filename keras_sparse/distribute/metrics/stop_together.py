import keras

from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.utils import checks


class StopTogether(keras.callbacks.Callback):
    """Stops training on all ranks when a callback stops one of them.

    A callback such as `keras.callbacks.TerminateOnNaN` sees the samples of its own rank and may
    stop that rank alone, while the others wait in the next exchange. With this callback after it,
    the rank continues until the ranks next agree, and then all ranks stop.

    Pass it on all ranks, last in the list of callbacks. Callbacks that decide by the metrics of
    `MetricAverage` decide alike without it.

    Args:
        every: `"epoch"` or integer. Ranks agree at the end of each epoch, and with an integer also
            after each multiple of this number of batches in an epoch. Each agreement is an exchange
            that the step waits for. With `steps_per_execution`, ranks agree at the end of the
            execution that contains such a batch. Defaults to `"epoch"`.

    Example:
    >>> model.compile(keras_sparse.optimizers.Adagrad(), loss="mse")
    >>> callbacks = [
    ...     keras_sparse.distribute.MetricAverage(),
    ...     keras.callbacks.TerminateOnNaN(),
    ...     keras_sparse.distribute.StopTogether(every=100),
    ... ]
    >>> ids = np.array([[1, 2], [2, 3]])
    >>> history = model.fit(ids, np.ones((2, 1)), verbose=0, callbacks=callbacks)
    """

    def __init__(self, every="epoch"):
        super().__init__()
        self.every = checks.epoch_or_steps(every, "every")
        self._wants_to_stop = False
        self._num_batches = 0  # of this epoch

    def on_train_begin(self, logs=None):
        self._wants_to_stop = False

    def on_epoch_begin(self, epoch, logs=None):
        self._num_batches = 0

    def on_train_batch_end(self, batch, logs=None):
        if size() == 1:
            return
        before, self._num_batches = self._num_batches, batch + 1
        if self.every != "epoch" and self._num_batches // self.every > before // self.every:
            self._agree()
        else:
            self._put_off()

    def on_epoch_end(self, epoch, logs=None):
        if size() > 1:
            self._agree()

    def _put_off(self):
        self._wants_to_stop |= self.model.stop_training
        self.model.stop_training = False

    def _agree(self):
        self._put_off()
        of_ranks = gather_objects(self._wants_to_stop, "keras_sparse.StopTogether")
        self.model.stop_training = any(of_ranks)
