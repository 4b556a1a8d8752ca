import keras

from keras_sparse.storage.eviction_policy import EvictionPolicy
from keras_sparse.utils import checks

_MAX_STEPS = 2**31 - 1


@keras.saving.register_keras_serializable(package="keras_sparse")
class GlobalStepEvict(EvictionPolicy):
    """Evicts rows whose last gradient is more than `steps_to_live` training steps old.

    Use it if ids appear and disappear, as those of news or sessions do. The age of a row is the
    number of training steps that its table has made since the row's last gradient: 0 right after
    the step. Rows of age `steps_to_live` stay, and older rows are evicted.

    The table stores the step in 4 bytes per row. Ages are saved with the table, so a training
    resumed from a file evicts the same rows; a row imported without an age has age 0. Ages start
    again at 0 when they reach `2**32`, so evict at least every `2**31` steps.

    Args:
        steps_to_live: Integer in [1, 2**31 - 1]. Largest age, in training steps, of a row that
            stays.
        at_save: Boolean. Whether rows are also evicted each time the table is saved, just before it
            is written, so that file and model have the same rows. Defaults to `True`.

    Example:
    >>> eviction = keras_sparse.GlobalStepEvict(steps_to_live=100_000)
    >>> layer = keras_sparse.layers.Embedding(None, 64, eviction=eviction)
    """

    kind = "global_step"
    needs_ages = True

    def __init__(self, steps_to_live, at_save=True):
        super().__init__(at_save)
        self.steps_to_live = checks.positive(steps_to_live, "steps_to_live")
        if self.steps_to_live > _MAX_STEPS:
            raise ValueError(
                f"`steps_to_live` must be at most {_MAX_STEPS}. Received: "
                f"steps_to_live={steps_to_live}"
            )

    def constants(self):
        return {"steps_to_live": self.steps_to_live}
