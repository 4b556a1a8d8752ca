import keras

from keras_sparse.storage.admission_filter import CountingFilter
from keras_sparse.utils import checks

_COUNTER_TYPES = ("uint8", "uint16", "uint32", "uint64")
_LEAST_PROBABILITY = 2.0**-64


@keras.saving.register_keras_serializable(package="keras_sparse")
class CBFFilter(CountingFilter):
    """Gives a key of a dynamic table a row in its `filter_freq`-th training step, or earlier.

    Counts the training steps in which a key has a gradient, or its occurrences in them, like
    `CounterFilter`, but in a counting Bloom filter, whose memory its arguments fix whatever keys
    come: `m = ceil(|ln p| / ln(2)**2 * n)` counters, for `n` of `max_element_size` and `p` of
    `false_positive_probability`, of which each key has `k = ceil(log2(1 / p))`. A key's count is
    the least of its counters, and only those below its new count are raised. So no key is ever
    admitted late; one that shares all its counters with others may be admitted early, with a
    probability of about `p` once the filter has counted `max_element_size` keys, and more beyond
    that.

    The counters have no room for admitted keys to give back: they stay. `waiting_keys` of a table's
    `stats()` is about how many keys the filter has counted, to be compared with `max_element_size`.
    Counters are saved with the table, all `m` of them.

    Args:
        filter_freq: Integer that fits `counter_type`. The training step, or the occurrence, of a
            key, counted from 1, that makes its row.
        max_element_size: Integer. How many different keys the filter is made for.
        false_positive_probability: Float, at most 0.5. Defaults to 0.01.
        counter_type: `"uint8"`, `"uint16"`, `"uint32"` or `"uint64"`, or a dtype of that
            name. Counters stop at `filter_freq`. Defaults to `"uint32"`.
        default_value_no_permission: What a key without a row reads as: a number, for all elements,
            or `"initializer"`, its initial row. Defaults to 0.
        count: `"steps"` or `"occurrences"`, as for `CounterFilter`. Defaults to `"steps"`.

    Example:
    >>> admission = keras_sparse.CBFFilter(3, 10**6, 0.01, "uint8")  # 9.6 MB
    >>> layer = keras_sparse.layers.Embedding(None, 64, admission=admission)
    """

    kind = "cbf"

    def __init__(
        self,
        filter_freq,
        max_element_size,
        false_positive_probability=0.01,
        counter_type="uint32",
        default_value_no_permission=0.0,
        count="steps",
    ):
        super().__init__(filter_freq, default_value_no_permission, count)
        self.max_element_size = checks.positive(max_element_size, "max_element_size")
        self.false_positive_probability = checks.number(
            false_positive_probability, "false_positive_probability"
        )
        self.counter_type = checks.dtype(counter_type, _COUNTER_TYPES, "counter_type")
        if not _LEAST_PROBABILITY <= self.false_positive_probability <= 0.5:
            raise ValueError(
                "`false_positive_probability` must be in [2**-64, 0.5]. Received: "
                f"false_positive_probability={false_positive_probability}"
            )
        # The native filter takes its numbers as doubles, which are exact so far.
        most = min(2**self._counter_bits - 1, 2**53)
        if self.filter_freq > most:
            raise ValueError(
                f"`filter_freq` must fit `counter_type`: it must be at most {most}. Received: "
                f"filter_freq={filter_freq} with counter_type='{counter_type}'"
            )

    @property
    def _counter_bits(self):
        return int(self.counter_type.removeprefix("uint"))

    def constants(self):
        return {
            **super().constants(),
            "max_element_size": self.max_element_size,
            "false_positive_probability": self.false_positive_probability,
            "counter_bits": self._counter_bits,
        }

    def layout(self):
        names = ("max_element_size", "false_positive_probability", "counter_type")
        return {**super().layout(), **{name: getattr(self, name) for name in names}}

    def get_config(self):
        return {
            **super().get_config(),
            "max_element_size": self.max_element_size,
            "false_positive_probability": self.false_positive_probability,
            "counter_type": self.counter_type,
        }
