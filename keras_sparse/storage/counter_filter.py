import keras

from keras_sparse.storage.admission_filter import CountingFilter

_MAX_FREQ = 2**32 - 1


@keras.saving.register_keras_serializable(package="keras_sparse")
class CounterFilter(CountingFilter):
    """Admits a key in its `filter_freq`-th training step or occurrence.

    Keys that appear once or twice are most of the rows of a large table and train it little. This
    filter counts exactly: the training steps in which each key has a gradient, once per step
    however often the key is in the batch, or its occurrences in them. A waiting key takes at most
    16 bytes of memory. Counts are saved with the table.

    `CounterFilter(1)` creates each row at its first gradient, as without a filter, but a key
    without a row reads as `default_value_no_permission`.

    Args:
        filter_freq: Integer, at most 2**32 - 1. The training step or occurrence of a key, counted
            from 1, that creates its row.
        default_value_no_permission: Value that a lookup returns for a key without a row: a float
            for all elements, or `"initializer"` for the initial row of the key. Defaults to 0.
        count: `"steps"` or `"occurrences"`. `"occurrences"` counts as DeepRec does: how often the
            key is in the batch, over all ranks and all batches of an accumulated gradient.
            Gradients that are merged on the way, between ranks or for clipping and accumulation,
            then keep one entry per occurrence of a key, up to `filter_freq`. Defaults to `"steps"`.

    Example:
    >>> layer = keras_sparse.layers.Embedding(None, 64, admission=keras_sparse.CounterFilter(3))
    """

    kind = "counter"

    def __init__(self, filter_freq, default_value_no_permission=0.0, count="steps"):
        super().__init__(filter_freq, default_value_no_permission, count)
        if self.filter_freq > _MAX_FREQ:
            raise ValueError(
                f"`filter_freq` must be at most {_MAX_FREQ}. Received: filter_freq={filter_freq}"
            )
