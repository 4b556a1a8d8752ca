import keras

from keras_sparse.storage.admission_filter import AdmissionFilter
from keras_sparse.utils import checks


@keras.saving.register_keras_serializable(package="keras_sparse")
class ProbabilityFilter(AdmissionFilter):
    """Admits a key with probability `p` in each of its training steps.

    A key is admitted after `1 / p` training steps on average, so a frequent key soon gets a row and
    a rare one most likely never does. The filter stores nothing about a key and takes no memory.
    The decision is a function of the seed, the key, and the number of the table's training step;
    seed and number are saved with the table.

    Args:
        p: Float above 0, at most 1. Probability that a key without a row gets one in a training
            step with a gradient for it.
        seed: Integer. Seed of the decisions. Defaults to `None`: the seed of the table's initial
            rows.
        default_value_no_permission: Value that a lookup returns for a key without a row: a float
            for all elements, or `"initializer"` for the initial row of the key. Defaults to 0.

    Example:
    >>> admission = keras_sparse.ProbabilityFilter(0.1)
    >>> layer = keras_sparse.layers.Embedding(None, 64, admission=admission)
    """

    kind = "probability"

    def __init__(self, p, seed=None, default_value_no_permission=0.0):
        super().__init__(default_value_no_permission)
        self.p = checks.number(p, "p")
        if not 0 < self.p <= 1:
            raise ValueError(f"`p` must be above 0 and at most 1. Received: p={p}")
        self.seed = checks.integer_or_none(seed, "seed")

    def constants(self):
        return {"probability": self.p}

    def get_config(self):
        return {**super().get_config(), "p": self.p, "seed": self.seed}
