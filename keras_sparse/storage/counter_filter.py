import keras

from keras_sparse.storage.admission_filter import CountingFilter

_MAX_FREQ = 2**32 - 1


@keras.saving.register_keras_serializable(package="keras_sparse")
class CounterFilter(CountingFilter):
    """Gives a key of a dynamic table a row in its `filter_freq`-th training step, or occurrence.

    Ids that are seen once or twice are most of the rows of a large table and teach it little. This
    filter counts, exactly, the training steps in which each key has a gradient, where a key counts
    once a step, however often it is in the batch; or its occurrences in them. A waiting key takes
    at most 16 bytes of memory. Counts are saved with the table.

    `CounterFilter(1)` makes each row at its first gradient, as without a filter, but a key that has
    had none reads as `default_value_no_permission`.

    Args:
        filter_freq: Integer. The training step, or the occurrence, of a key, counted from 1, that
            makes its row.
        default_value_no_permission: What a key without a row reads as: a number, for all elements,
            or `"initializer"`, its initial row. Defaults to 0.
        count: `"steps"`, or `"occurrences"`, as DeepRec: how often the key is in the batch, over
            all ranks and all batches of an accumulated gradient. What is merged on the way, by
            ranks and where gradients are clipped or accumulated, then has a row for each occurrence
            of a key, up to `filter_freq` of them. Defaults to `"steps"`.

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
