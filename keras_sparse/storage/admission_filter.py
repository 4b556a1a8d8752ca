import keras

from keras_sparse.utils import checks


class AdmissionFilter:
    """The base of admission filters: which keys of a dynamic table may get a row.

    A filter is asked once a training step for each key that has a gradient and no row. Until the
    key is admitted, its gradients are dropped, which the table's statistics count. In the step that
    admits it, its row is made and that step's gradient is applied to it. Lookups ask no filter.

    Args:
        default_value_no_permission: What a key without a row reads as while the table has the
            filter: a number, for all elements, or `"initializer"`, its initial row. Defaults to 0.
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
        """Integer. How many entries of an id a merged gradient may have: as many as a filter that
        counts occurrences has to see of them. Defaults to 1, that of the sum.
        """
        return 1

    def constants(self):
        """Returns the numbers that the native filter takes, by name."""
        raise NotImplementedError

    def layout(self):
        """Returns what two filters must share for one to take over what the other remembers."""
        return {"kind": self.kind}

    def get_config(self):
        """Returns the arguments as a dict that can be saved."""
        return {"default_value_no_permission": self.default_value_no_permission}

    @classmethod
    def from_config(cls, config):
        """Makes the filter that `get_config` describes."""
        return cls(**config)


def check_admission(admission, input_dim):
    """Returns the filter of a table, or `None`; also from what a config has of it."""
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
            "`admission` must be that of a dynamic table: all ids of a static one have rows. Give "
            f"it input_dim=None, or leave `admission` out. Received: input_dim={input_dim} with "
            f"admission={type(admission).__name__}"
        )
    return admission


_COUNTS = ("steps", "occurrences")


class CountingFilter(AdmissionFilter):
    """The base of filters that count what a key has been trained.

    Args:
        filter_freq: Integer. The training step, or the occurrence, of a key, counted from 1, that
            makes its row.
        default_value_no_permission: As for `AdmissionFilter`. Defaults to 0.
        count: `"steps"` or `"occurrences"`. Defaults to `"steps"`.
    """

    def __init__(self, filter_freq, default_value_no_permission=0.0, count="steps"):
        super().__init__(default_value_no_permission)
        self.filter_freq = checks.positive(filter_freq, "filter_freq")
        self.count = checks.one_of(count, _COUNTS, "count")

    @property
    def max_entries(self):
        # Further ones change nothing: the key is admitted.
        return self.filter_freq if self.count == "occurrences" else 1

    def constants(self):
        return {
            "filter_freq": self.filter_freq,
            "counts_occurrences": float(self.count == "occurrences"),
        }

    def layout(self):
        # Files of filters that count steps, which all did once, do not say so.
        counts = {} if self.count == "steps" else {"count": self.count}
        return {**super().layout(), **counts}

    def get_config(self):
        return {**super().get_config(), "filter_freq": self.filter_freq, "count": self.count}
