"""Numbers of bytes, and seconds, as people write and read them."""

import decimal
import math
import re

from keras_sparse.utils import checks

# What is copied of a table takes so much memory at a time, whatever the size of the table.
CHUNK_BYTES = 16 << 20

_UNITS = {"TB": 10**12, "GB": 10**9, "MB": 10**6, "kB": 10**3, "B": 1}
_BINARY = {"TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "KiB": 2**10}

_AMOUNT = re.compile(r"([0-9]+\.?[0-9]*(?:e[0-9]{1,2})?) *([a-z]*)", re.IGNORECASE)


def bytes_text(num_bytes):
    """Returns a number of bytes with three digits, rounded up, and its unit: `"1.21 GB"`."""
    for unit, size in _UNITS.items():
        if num_bytes >= size > 1:
            digits = max(0, 2 - int(math.log10(num_bytes / size)))
            return f"{math.ceil(num_bytes * 10**digits / size) / 10**digits:.{digits}f} {unit}"
    return f"{num_bytes} B"


def seconds_text(seconds):
    """Returns a time with three digits and its unit: `"1.21 ms"`."""
    for unit, size in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            digits = max(0, 2 - int(math.log10(seconds / size)))
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds * 1e6:.2f} us"


def parse_bytes(value, name):
    """Returns a number of bytes, an integer above 0, from one or from text such as `"16GB"`.

    Args:
        value: Integer; or string: a number, and B, kB, MB, GB, TB, which are powers of 1000, or
            KiB, MiB, GiB, TiB, powers of 1024, in letters of any case.
        name: String. What errors call it.
    """
    if not isinstance(value, str):
        return checks.positive(value, name)
    sizes = {unit.upper(): size for unit, size in {**_UNITS, **_BINARY}.items()}
    match = _AMOUNT.fullmatch(value.strip())
    num_bytes = decimal.Decimal(0)
    if match is not None:
        num_bytes = decimal.Decimal(match[1]) * sizes.get((match[2] or "B").upper(), 0)
    if not 1 <= num_bytes < 2**63:
        raise ValueError(
            f"`{name}` must be a number of bytes above 0, such as 16GB or 64GiB, and below 2**63. "
            f"A unit must be one of {', '.join((*_UNITS, *_BINARY))}. Received: {name}={value!r}"
        )
    return int(num_bytes)
