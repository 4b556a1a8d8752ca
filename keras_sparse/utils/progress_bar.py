import time

import keras

_SECONDS_UNTIL_SHOWN = 2.0


class Progress:
    """A bar that appears if what it counts takes longer than a moment.

    Args:
        total: Integer. What there is to do, in any unit.
        unit_name: String. What the bar calls it.
        scale: Integer. How many of it the bar shows as one.
        is_shown: Boolean. `False` for no bar at all.
    """

    def __init__(self, total, unit_name, scale=1, is_shown=True):
        self._scale = scale
        self._total = max(1, -(-total // scale))
        self._unit_name = unit_name
        self._is_shown = is_shown
        self._begun = time.monotonic()
        self._done = 0
        self._bar = None

    def add(self, done):
        """Counts what has been done since the last call."""
        self._done += done
        if not self._is_shown:
            return
        if self._bar is None:
            if time.monotonic() - self._begun < _SECONDS_UNTIL_SHOWN:
                return
            self._bar = keras.utils.Progbar(self._total, unit_name=self._unit_name)
        # What is left to its end is shown by `close`.
        self._bar.update(min(self._done // self._scale, self._total - 1))

    def close(self):
        """Fills the bar, if it was shown; again does nothing."""
        if self._bar is not None:
            self._bar.update(self._total, finalize=True)
            self._bar = None
