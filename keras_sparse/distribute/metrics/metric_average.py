import keras

from keras_sparse.distribute.metrics.average_metrics import average_metrics
from keras_sparse.distribute.metrics.average_metrics import average_over_ranks
from keras_sparse.distribute.metrics.unweighted_metrics import unweight_metrics
from keras_sparse.distribute.training.check_replicated_variables import warn_of_different_replicas


class MetricAverage(keras.callbacks.Callback):
    """Reports the metrics of all ranks to callbacks, history and printed logs.

    At the end of each epoch, validation and evaluation, the logs become the metrics of the samples
    of all ranks, as `keras_sparse.distribute.average_metrics` computes them. They are equal on all
    ranks, so `EarlyStopping` and `ReduceLROnPlateau` decide alike. Place it first in the list of
    callbacks: callbacks before it see the metrics of their own rank.

    Loss and metrics, weighted ones included, are those of one process with the same batches, also
    for a dataset of `shard(..., weigh_samples=True)`: its additional sample weights affect
    gradients and are kept out of the reported metrics. (This happens where a model calls its
    `compute_loss` and `compute_metrics`, which a custom `train_step` may leave out.)

    At the end of the first epoch, the callback compares the dense variables of the ranks and warns
    if they differ. Typical reasons are a missing `DistributedOptimizer` or different initial
    values.

    The result of `evaluate` and the loss that is printed within an epoch remain those of one rank.
    Call `average_metrics(model)` after `evaluate`. If a custom `train_step` returns other names
    than the model's metrics, the logs are averaged with the same weight for each rank.

    Example:
    >>> model.compile(keras_sparse.optimizers.Adagrad(), loss="mse")
    >>> callback = keras_sparse.distribute.MetricAverage()
    >>> ids = np.array([[1, 2], [2, 3]])
    >>> history = model.fit(ids, np.ones((2, 1)), verbose=0, callbacks=[callback])
    """

    def __init__(self):
        super().__init__()
        self._is_in_epoch = False
        self._has_looked_at_copies = False
        self._of_training = None  # if validation has reset the metrics since
        self._of_validation = {}
        self._of_epoch = {}

    def set_model(self, model):
        super().set_model(model)
        unweight_metrics(model)

    def on_epoch_begin(self, epoch, logs=None):
        self._is_in_epoch = True
        self._of_training, self._of_validation = None, {}

    def on_test_begin(self, logs=None):
        if self._is_in_epoch:  # Keras resets the metrics next
            self._of_training = average_metrics(self.model)

    def on_test_end(self, logs=None):
        logs = {} if logs is None else logs
        logs.update(_of_all_ranks(logs, average_metrics(self.model)))
        self._of_validation = {f"val_{name}": value for name, value in logs.items()}

    def on_epoch_end(self, epoch, logs=None):
        self._is_in_epoch = False
        logs = {} if logs is None else logs
        metrics = self._of_training
        metrics = average_metrics(self.model) if metrics is None else metrics
        of_training = {k: v for k, v in logs.items() if k not in self._of_validation}
        logs.update(_of_all_ranks(of_training, metrics))
        logs.update(self._of_validation)
        self._of_epoch = dict(logs)
        if not self._has_looked_at_copies:
            self._has_looked_at_copies = True
            warn_of_different_replicas(self.model)

    def on_train_end(self, logs=None):
        if logs is not None:
            logs.update(self._of_epoch)


def _of_all_ranks(logs, metrics):
    """Returns the metrics if the logs come from them, else the logs averaged by rank."""
    return metrics if set(metrics) == set(logs) else average_over_ranks(logs)
