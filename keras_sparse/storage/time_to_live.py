import datetime

import keras

from keras_sparse.storage.eviction_policy import EvictionPolicy
from keras_sparse.utils import checks

_TOO_MANY_SECONDS = 2**31


@keras.saving.register_keras_serializable(package="keras_sparse")
class TimeToLive(EvictionPolicy):
    """Lets go of rows whose last gradient is more than `seconds` of wall-clock time old.

    `GlobalStepEvict` counts training steps, this counts time, which goes on while nothing trains:
    what was saved on Friday is three days older on Monday. It is for rules in time ("no id that has
    not come for 30 days"), and for training that comes in bursts.

    A row's age is the time since the training step in which it had its last gradient, in whole
    seconds: it goes once its age is above `seconds`, up to a second early or late. The table
    remembers the time in 4 bytes a row, by the clock of the machine, and over ranks each rank by
    its own, for its own rows. A table's clock never goes back: where that of the machine was set
    back, or a file comes from a machine whose clock is ahead, ages stand still until time has
    caught up.

    Ages are saved with the table. A row that is imported without one has age 0, and so has each row
    of a file of a table that counts ages in steps.

    Args:
        seconds: Integer, float or `datetime.timedelta`, from 1 second, below `2**31` (68 years).
            The largest age that stays. As ages are whole seconds, fractions count for nothing.
        at_save: Boolean. Whether rows also go each time the table is saved. Defaults to `True`.

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
                f"`seconds` must be from 1 to below {_TOO_MANY_SECONDS}, 68 years. Received: "
                f"seconds={seconds}"
            )
        self.seconds = float(seconds)

    def constants(self):
        return {"seconds": self.seconds}
