import keras

from keras_sparse.storage.eviction_policy import EvictionPolicy
from keras_sparse.utils import checks


@keras.saving.register_keras_serializable(package="keras_sparse")
class L2WeightEvict(EvictionPolicy):
    """Evicts rows whose weight, `0.5 * sum(row ** 2)`, is below `l2_weight_threshold`.

    A row near zero has little effect on the model: weight decay, or an L1 term such as that of
    `Ftrl`, has drawn it there. The weight is computed in float64 from the row as a lookup reads it,
    with missed steps applied and without slots. A row with a NaN stays.

    Choose the threshold well below the weight of initial rows, or keys lose their rows soon after
    they get them. Rows of `n` elements with standard deviation `s` have a weight of about
    `0.5 * n * s**2`.

    Args:
        l2_weight_threshold: Float above 0. Weight below which rows are evicted.
        at_save: Boolean. Whether rows are also evicted each time the table is saved, just before it
            is written, so that file and model have the same rows. Defaults to `True`.

    Example:
    >>> eviction = keras_sparse.L2WeightEvict(l2_weight_threshold=1e-4)
    >>> layer = keras_sparse.layers.Embedding(None, 64, eviction=eviction)
    """

    kind = "l2_weight"

    def __init__(self, l2_weight_threshold, at_save=True):
        super().__init__(at_save)
        self.l2_weight_threshold = checks.number(l2_weight_threshold, "l2_weight_threshold")
        if self.l2_weight_threshold <= 0:
            raise ValueError(
                "`l2_weight_threshold` must be above 0. Received: "
                f"l2_weight_threshold={l2_weight_threshold}"
            )

    def constants(self):
        return {"l2_weight_threshold": self.l2_weight_threshold}
