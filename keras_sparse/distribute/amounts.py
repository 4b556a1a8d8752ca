import math
import re

from keras_sparse import checks

_UNITS = {"TB": 10**12, "GB": 10**9, "MB": 10**6, "KB": 10**3, "B": 1}
_BINARY = {"TIB": 2**40, "GIB": 2**30, "MIB": 2**20, "KIB": 2**10}


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
        value: Integer; or string: a number, and B, KB, MB, GB, TB, which are powers of 1000, or
            KiB, MiB, GiB, TiB, powers of 1024.
        name: String. What errors call it.
    """
    if not isinstance(value, str):
        return checks.positive(value, name)
    match = re.fullmatch(r"([0-9.]+(?:e[0-9]+)?) *([KMGT]?I?B)?", value.strip(), re.IGNORECASE)
    try:
        number, unit = match.groups() if match else ("", None)
        size = {**_UNITS, **_BINARY}[(unit or "B").upper()]
        return checks.positive(int(float(number) * size), name)
    except (ValueError, KeyError):
        raise ValueError(
            f"`{name}` must be a number of bytes above 0, such as 16GB or 64GiB. Received: "
            f"{name}={value!r}"
        ) from None
