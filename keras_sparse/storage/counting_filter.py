from keras_sparse.storage.admission_filter import AdmissionFilter
from keras_sparse.utils import checks

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
