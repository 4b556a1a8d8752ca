"""Ages of rows in files, which may be steps or seconds."""

import time

import numpy as np

_CLOCK_PERIOD = 2**32
_MOST_SECONDS = 2**31  # more are none: the clock has been set back


def seconds_now():
    """Returns the seconds since 1970, as files have them: modulo 2^32."""
    return int(time.time()) % _CLOCK_PERIOD


def ages_now(ages, clock, unit):
    """Returns the ages of saved rows as a table takes them over now.

    Args:
        ages: uint32 array of shape `(n,)`: what they were when they were saved. Or `None`.
        clock: Integer: the `seconds_now()` of that time, or `None` for ages in steps.
        unit: String: that of the ages that the table keeps, of its `RowMetadata`, or `None`.

    Returns:
        uint32 array, with the time that has passed, or `None` where ages are of no use to the
        table: it counts in another unit.
    """
    if ages is None or (clock is not None) != (unit == "seconds"):
        return None
    if clock is None:
        return ages
    passed = (seconds_now() - clock) % _CLOCK_PERIOD
    if passed >= _MOST_SECONDS:
        passed = 0
    return np.minimum(ages.astype(np.uint64) + passed, _MOST_SECONDS).astype(np.uint32)


def latest(clocks):
    """Returns the one of some clocks, of seconds modulo 2^32, that is ahead of all others."""
    first = clocks[0]
    return max(clocks, key=lambda clock: (clock - first + _MOST_SECONDS) % _CLOCK_PERIOD)
