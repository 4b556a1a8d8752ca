import keras

from keras_sparse.callbacks.check_built import check_built
from keras_sparse.distribute.ranks.runtime import error_prefix
from keras_sparse.tables.embedding_variable import tables_of
from keras_sparse.utils import checks


class EvictRows(keras.callbacks.Callback):
    """Evicts rows during training according to each table's policy.

    Args:
        every: `"epoch"` or integer. Evicts at the end of each epoch, or each time the training
            steps reach a multiple of the integer. Steps count from the first step of the optimizer,
            and their number is saved with the model, so a resumed training evicts at the same
            steps. With `steps_per_execution`, rows are evicted at the end of the execution that
            contains such a step. Defaults to `"epoch"`.
        verbose: 0 or 1. With 1, prints one line per table. On several ranks, each rank prints the
            lines of its own rows with its number. Defaults to 0.

    Raises:
        ValueError: When training begins, if no table of the model has an eviction policy.

    Example:
    >>> ids = keras.Input((2,), dtype="int64")
    >>> layer = keras_sparse.layers.Embedding(
    ...     None, 1, "sum", "ones", eviction=keras_sparse.GlobalStepEvict(2)
    ... )
    >>> model = keras.Model(ids, layer(ids))
    >>> model.compile(keras_sparse.optimizers.Adagrad(), loss="mse")
    >>> batches = np.array([[1, 2], [3, 4], [4, 5], [4, 5]])  # 1 and 2 are then three steps old
    >>> callback = keras_sparse.callbacks.EvictRows(every=4)
    >>> history = model.fit(
    ...     batches, np.ones((4, 1)), 1, shuffle=False, verbose=0, callbacks=[callback]
    ... )
    >>> layer.stats()["rows"], layer.stats()["evicted_rows"]
    (3, 2)
    """

    def __init__(self, every="epoch", verbose=0):
        super().__init__()
        self.every = checks.epoch_or_steps(every, "every")
        self.verbose = checks.one_of(verbose, (0, 1), "verbose")
        self._seen = None  # the last step that was looked at

    def on_train_begin(self, logs=None):
        if not self._tables():
            check_built(self.model, "EvictRows", "its tables are known")
            raise ValueError(
                "EvictRows must be given to a model with an eviction policy. Give a dynamic "
                "layer a policy: Embedding(None, ..., "
                "eviction=keras_sparse.GlobalStepEvict(100_000)). Received: model "
                f"'{self.model.name}' without a policy"
            )
        self._seen = None

    def on_epoch_begin(self, epoch, logs=None):
        if self._seen is None:  # a checkpoint to resume from is loaded by now
            self._seen = self._step()

    def on_train_batch_end(self, batch, logs=None):
        if self.every == "epoch":
            return
        step = self._step()
        if step // self.every > self._seen // self.every:
            self._evict(step)
        self._seen = step

    def on_epoch_end(self, epoch, logs=None):
        if self.every == "epoch":
            self._evict(self._step())

    def _tables(self):
        tables = tables_of(self.model)
        return [each for each in tables if each.eviction is not None]

    def _step(self):
        return int(self.model.optimizer.iterations)

    def _evict(self, step):
        for table in self._tables():
            num_evicted = table.evict()
            if self.verbose:
                print(
                    f"{error_prefix()}Step {step}: {num_evicted:,} rows of '{table.path}' evicted, "
                    f"{table.num_rows:,} left"
                )
