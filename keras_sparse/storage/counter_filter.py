import keras

from keras_sparse import checks
from keras_sparse.storage.admission_filter import AdmissionFilter

_MAX_FREQ = 2**32 - 1


@keras.saving.register_keras_serializable(package="keras_sparse")
class CounterFilter(AdmissionFilter):
    """Gives a key of a dynamic table a row in its `filter_freq`-th training step.

    Ids that are seen once or twice are most of the rows of a large table and teach it little. This
    filter counts, exactly, the training steps in which each key has a gradient; a key counts once a
    step, however often it is in the batch. A waiting key takes at most 16 bytes of memory. Counts
    are saved with the table.

    `CounterFilter(1)` makes each row at its first gradient, as without a filter, but a key that has
    had none reads as `default_value_no_permission`.

    Args:
        filter_freq: Integer. The training step of a key, counted from 1, that makes its row.
        default_value_no_permission: What a key without a row reads as: a number, for all elements,
            or `"initializer"`, its initial row. Defaults to 0.

    Example:
    >>> layer = keras_sparse.layers.Embedding(None, 64, admission=keras_sparse.CounterFilter(3))
    """

    kind = "counter"

    def __init__(self, filter_freq, default_value_no_permission=0.0):
        super().__init__(default_value_no_permission)
        self.filter_freq = checks.positive(filter_freq, "filter_freq")
        if self.filter_freq > _MAX_FREQ:
            raise ValueError(
                f"`filter_freq` must be at most {_MAX_FREQ}. Received: filter_freq={filter_freq}"
            )

    def constants(self):
        return {"filter_freq": self.filter_freq}

    def get_config(self):
        return {**super().get_config(), "filter_freq": self.filter_freq}
