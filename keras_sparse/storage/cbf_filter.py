import keras

from keras_sparse.storage.admission_filter import CountingFilter
from keras_sparse.utils import checks

_COUNTER_TYPES = ("uint8", "uint16", "uint32", "uint64")
_LEAST_PROBABILITY = 2.0**-64


@keras.saving.register_keras_serializable(package="keras_sparse")
class CBFFilter(CountingFilter):
    """Admits frequent keys by counting them in a counting Bloom filter.

    The filter counts the training steps in which a key has a gradient, or its occurrences in them,
    like `CounterFilter`. Its memory is fixed by its arguments, whatever keys appear. It has
    `m = ceil(|ln p| / ln(2)**2 * n)` counters, for `n = max_element_size` and
    `p = false_positive_probability`, and each key uses `k = ceil(log2(1 / p))` of them. The count
    of a key is the least of its counters, and only counters below its new count are raised. So no
    key is admitted late. A key that shares all its counters with others may be admitted early: with
    a probability of about `p` once the filter has counted `max_element_size` keys, and a higher one
    beyond.

    Counters of admitted keys are never released. `waiting_keys` of a table's `stats()` estimates
    the number of counted keys; compare it with `max_element_size`. All `m` counters are saved with
    the table.

    Args:
        filter_freq: Integer that fits `counter_type`. The training step or occurrence of a key,
            counted from 1, that creates its row.
        max_element_size: Integer. Number of different keys that the filter is sized for.
        false_positive_probability: Float in [2**-64, 0.5]. Probability of admitting a key early
            once `max_element_size` keys are counted. Defaults to 0.01.
        counter_type: `"uint8"`, `"uint16"`, `"uint32"` or `"uint64"`, or a dtype of that name.
            Counters stop at `filter_freq`. Defaults to `"uint32"`.
        default_value_no_permission: Value that a lookup returns for a key without a row: a float
            for all elements, or `"initializer"` for the initial row of the key. Defaults to 0.
        count: `"steps"` or `"occurrences"`. `"occurrences"` counts as DeepRec does: how often the
            key is in the batch, over all ranks and all batches of an accumulated gradient. Defaults
            to `"steps"`.

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
        # The native filter reads its numbers as doubles, which are exact up to 2**53.
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
