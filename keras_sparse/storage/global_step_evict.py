import keras

from keras_sparse.storage.eviction_policy import EvictionPolicy
from keras_sparse.utils import checks

_MAX_STEPS = 2**31 - 1


@keras.saving.register_keras_serializable(package="keras_sparse")
class GlobalStepEvict(EvictionPolicy):
    """Lets go of rows whose last gradient is more than `steps_to_live` training steps old.

    Where ids come and go, as those of news or sessions do, this keeps a table at the rows that are
    still in use. A row's age is the number of training steps that its table has made since the one
    in which the row had its last gradient: 0 right after that one. A row of age `steps_to_live`
    stays, an older one goes.

    The table remembers the step in 4 bytes a row. Ages are saved with the table, so that training
    on from a file evicts the same rows; a row that is imported without one has age 0. An age that
    reaches `2**32` begins anew at 0, so evict more often than every `2**31` steps.

    Args:
        steps_to_live: Integer from 1, below `2**31`. The largest age that stays.
        at_save: Boolean. Whether rows also go each time the table is saved. Defaults to `True`.

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
