import keras

from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.utils import checks


class StopTogether(keras.callbacks.Callback):
    """Lets all ranks stop training at the same time, when one of them wants to.

    A callback such as `keras.callbacks.TerminateOnNaN` looks at what its own rank has seen, and may
    stop that rank alone: the others then wait in the next exchange for good. With this callback
    behind it the rank goes on with the others until they next agree, and all stop there.

    It must be the last in the list of callbacks, and there on all ranks. Callbacks before it that
    decide by the metrics of `MetricAverage` decide alike in any case.

    Args:
        every: `"epoch"`, for the end of each epoch, or an integer: after how many batches of an
            epoch the ranks agree, beside its end. That costs an exchange each time, for which the
            step waits. Where `steps_per_execution` passes over such a batch, they agree at the end
            of the execution. Defaults to `"epoch"`.

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
