import keras

from keras_sparse.utils import checks


class AdmissionFilter:
    """Base class of admission filters, which decide which keys get a row.

    Each training step asks the filter about each key with a gradient and without a row. Until the
    key is admitted, its gradients are dropped and counted in the table's statistics. The step that
    admits a key creates its row and applies the gradient of the step. Lookups do not ask the
    filter.

    Args:
        default_value_no_permission: Value that a lookup returns for a key without a row: a float
            for all elements, or `"initializer"` for the initial row of the key. Defaults to 0.
    """

    kind = ""  # the native filter's name
    seed = None

    def __init__(self, default_value_no_permission=0.0):
        value = default_value_no_permission
        if isinstance(value, str) and value != "initializer":
            raise ValueError(
                '`default_value_no_permission` must be a number or "initializer". Received: '
                f"default_value_no_permission={value!r}"
            )
        if not isinstance(value, str):
            value = checks.float32_number(value, "default_value_no_permission")
        self.default_value_no_permission = value

    @property
    def max_entries(self):
        """Integer. Largest number of entries of an id in a merged gradient.

        A filter that counts occurrences needs to see several. Defaults to 1, the entry of the sum.
        """
        return 1

    def constants(self):
        """Returns the numbers that the native filter takes, by name."""
        raise NotImplementedError

    def layout(self):
        """Returns what two filters must share for one to load the counts of the other."""
        return {"kind": self.kind}

    def get_config(self):
        """Returns the arguments as a serializable dict."""
        return {"default_value_no_permission": self.default_value_no_permission}

    @classmethod
    def from_config(cls, config):
        """Creates the filter that `get_config` describes."""
        return cls(**config)


def check_admission(admission, input_dim):
    """Returns the filter of a table, or `None`; also deserializes a config."""
    if isinstance(admission, dict):
        admission = keras.saving.deserialize_keras_object(admission)
    if admission is None:
        return None
    if not isinstance(admission, AdmissionFilter):
        raise TypeError(
            "`admission` must be a filter of keras_sparse.storage, like keras_sparse.CounterFilter"
            f"(3). Received: admission={admission!r}"
        )
    if input_dim is not None:
        raise ValueError(
            "`admission` must be used with a dynamic table: all ids of a static one have rows. "
            f"Pass input_dim=None, or leave `admission` out. Received: input_dim={input_dim} "
            f"with admission={type(admission).__name__}"
        )
    return admission


_COUNTS = ("steps", "occurrences")


class CountingFilter(AdmissionFilter):
    """Base class of filters that count the training steps or occurrences of a key.

    Args:
        filter_freq: Integer. The training step or occurrence of a key, counted from 1, that creates
            its row.
        default_value_no_permission: Value that a lookup returns for a key without a row: a float
            for all elements, or `"initializer"` for the initial row of the key. Defaults to 0.
        count: `"steps"` or `"occurrences"`. Defaults to `"steps"`.
    """

    def __init__(self, filter_freq, default_value_no_permission=0.0, count="steps"):
        super().__init__(default_value_no_permission)
        self.filter_freq = checks.positive(filter_freq, "filter_freq")
        self.count = checks.one_of(count, _COUNTS, "count")

    @property
    def max_entries(self):
        # Further occurrences change nothing: the key is admitted.
        return self.filter_freq if self.count == "occurrences" else 1

    def constants(self):
        return {
            "filter_freq": self.filter_freq,
            "counts_occurrences": float(self.count == "occurrences"),
        }

    def layout(self):
        # Files of filters that count steps omit it, as the first version did.
        counts = {} if self.count == "steps" else {"count": self.count}
        return {**super().layout(), **counts}

    def get_config(self):
        return {**super().get_config(), "filter_freq": self.filter_freq, "count": self.count}
