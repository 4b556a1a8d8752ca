import datetime

import keras

from keras_sparse.storage.eviction_policy import EvictionPolicy
from keras_sparse.utils import checks

_TOO_MANY_SECONDS = 2**31


@keras.saving.register_keras_serializable(package="keras_sparse")
class TimeToLive(EvictionPolicy):
    """Evicts rows whose last gradient is more than `seconds` of wall-clock time old.

    `GlobalStepEvict` counts training steps. This policy counts time, which also passes while
    nothing trains: rows saved on Friday are three days older on Monday. Use it for rules in time
    ("no id unseen for 30 days") and for training in bursts.

    The age of a row is the time since the training step of its last gradient, in whole seconds. A
    row is evicted once its age is above `seconds`, up to a second early or late. The table stores
    the time in 4 bytes per row, by the clock of the machine; each rank uses its own clock for its
    own rows. The clock of a table never goes back. If the machine's clock was set back, or a file
    comes from a machine whose clock is ahead, ages stand still until the time has caught up.

    Ages are saved with the table. Rows imported without an age, and all rows of a file whose ages
    are in steps, have age 0.

    Args:
        seconds: Integer, float or `datetime.timedelta`, at least 1 second and below `2**31` (68
            years). Largest age of a row that stays. Ages are whole seconds, so fractions have no
            effect.
        at_save: Boolean. Whether rows are also evicted each time the table is saved, just before it
            is written, so that file and model have the same rows. Defaults to `True`.

    Example:
    >>> import datetime
    >>> eviction = keras_sparse.TimeToLive(datetime.timedelta(days=30))
    >>> layer = keras_sparse.layers.Embedding(None, 64, eviction=eviction)
    >>> eviction.seconds
    2592000.0
    """

    kind = "time_to_live"
    needs_ages = True
    ages_in_seconds = True

    def __init__(self, seconds, at_save=True):
        super().__init__(at_save)
        if isinstance(seconds, datetime.timedelta):
            seconds = seconds.total_seconds()
        kinds = "a number of seconds or a `datetime.timedelta`"
        if not 1 <= checks.real(seconds, "seconds", kinds) < _TOO_MANY_SECONDS:
            raise ValueError(
                f"`seconds` must be in [1, {_TOO_MANY_SECONDS}), below 68 years. Received: "
                f"seconds={seconds}"
            )
        self.seconds = float(seconds)

    def constants(self):
        return {"seconds": self.seconds}
