import keras

from keras_sparse.storage.eviction_policy import EvictionPolicy
from keras_sparse.utils import checks


@keras.saving.register_keras_serializable(package="keras_sparse")
class L2WeightEvict(EvictionPolicy):
    """Lets go of rows whose weight, `0.5 * sum(row ** 2)`, is below `l2_weight_threshold`.

    A row near zero does little for the model: weight decay, or an L1 term such as Ftrl's, has drawn
    it there. The row counts as a lookup reads it, with all moves of the optimizer; slots do not
    count. The sum is that of float64.

    The threshold must be well below the weight of the initial rows, or keys lose their rows soon
    after they get them: for rows of n elements of standard deviation s that is about
    `0.5 * n * s**2`. A row with a NaN stays.

    Args:
        l2_weight_threshold: Float above 0.
        at_save: Boolean. Whether rows also go each time the table is saved. Defaults to `True`.

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
