"""Checks of arguments, each worded as: rule, remedy, what came."""

import collections.abc
import math
import numbers
import os
import pathlib
import stat

import numpy as np

_GREATEST_FLOAT32 = float(np.finfo(np.float32).max)


def positive(value, name):
    """Returns `value` as an int; raises unless it is an integer above 0 of 64 bits."""
    if integer(value, name) <= 0:
        raise ValueError(f"`{name}` must be above 0. Received: {name}={value}")
    if value >= 2**63:
        raise ValueError(f"`{name}` must be below 2**63. Received: {name}={value}")
    return int(value)


def positive_or_none(value, name):
    """Returns `value` as an int, or `None`."""
    return None if value is None else positive(value, name)


def not_negative(value, name):
    """Returns `value` as an int; raises unless it is an integer that is not below 0."""
    if integer(value, name) < 0:
        raise ValueError(f"`{name}` must not be below 0. Received: {name}={value}")
    return int(value)


def integer(value, name):
    """Returns `value` as an int; raises unless it is an integer."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        is_whole = isinstance(value, (float, np.floating)) and value.is_integer()
        remedy = f": int({value!r})" if is_whole else ""
        raise TypeError(
            f"`{name}` must be an integer{remedy}. Received: {name}={value!r} of type "
            f"{type(value).__name__}"
        )
    return int(value)


def integer_or_none(value, name):
    """Returns `value` as an int, or `None`."""
    return None if value is None else integer(value, name)


def boolean(value, name):
    """Returns `value` as a bool; raises unless it is True or False, Python's or NumPy's."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"`{name}` must be True or False. Received: {name}={value!r}")
    return bool(value)


def real(value, name, kinds="a number"):
    """Returns `value` as a float; raises unless it is a number in the range of a float.

    Args:
        kinds: String. All that a caller takes, for the error. Defaults to `"a number"`.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"`{name}` must be {kinds}. Received: {name}={value!r}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(
            f"`{name}` must be in the range of a float, below 1.8e308. Received: a larger "
            f"{type(value).__name__}"
        ) from None


def number(value, name):
    """Returns `value` as a float; raises unless it is a finite number."""
    if not math.isfinite(real(value, name)):
        raise ValueError(f"`{name}` must be finite. Received: {name}={value}")
    return float(value)


def float32_number(value, name):
    """Returns `value` as a float; raises unless it is a number in the range of float32."""
    if abs(number(value, name)) > _GREATEST_FLOAT32:
        raise ValueError(
            f"`{name}` must be in the range of float32, up to 3.4e38. Received: {name}={value}"
        )
    return float(value)


def between(value, low, high, name):
    """Returns `value` as a float; raises unless it is a number above `low` and below `high`."""
    if not low < real(value, name) < high:
        raise ValueError(f"`{name}` must be above {low} and below {high}. Received: {name}={value}")
    return float(value)


def fraction(value, name):
    """Returns `value` as a float; raises unless it is a number above 0 and at most 1."""
    if not 0 < real(value, name) <= 1:
        raise ValueError(f"`{name}` must be above 0 and at most 1. Received: {name}={value}")
    return float(value)


def one_of(value, allowed, name, remedy=""):
    """Returns the one of `allowed` that equals `value`; raises if there is none."""
    allowed = tuple(allowed)
    # An array, which is not hashable, equals nothing as a whole.
    if not isinstance(value, collections.abc.Hashable) or value not in allowed:
        remedy = remedy and f" {remedy}."
        raise ValueError(f"`{name}` must be one of {allowed}.{remedy} Received: {name}={value!r}")
    return allowed[allowed.index(value)]


def uint32_array(values, name):
    """Returns an array of integers as uint32, or `None` for `None`; raises unless all fit."""
    if values is None:
        return None
    values = np.asarray(values)
    if values.dtype.kind not in "iu" and values.size > 0:
        raise TypeError(f"`{name}` must be integers. Received: {name} of dtype {values.dtype}")
    outside = np.flatnonzero((values < 0) | (values >= 2**32))
    if len(outside) > 0:
        raise ValueError(
            f"`{name}` must be in [0, 2**32). Received: {values.flat[outside[0]]} at position "
            f"{outside[0]}"
        )
    return values.astype(np.uint32)


def dtype(value, allowed, name):
    """Returns the name of a dtype; raises unless it is among `allowed`.

    Args:
        value: String, or a dtype of TensorFlow, NumPy or the like, which have a name.
        allowed: Strings.
        name: String.
    """
    named = value
    if not isinstance(value, str):
        named = getattr(value, "name", None) or getattr(value, "__name__", value)
    if named not in tuple(allowed):
        raise ValueError(f"`{name}` must be one of {tuple(allowed)}. Received: {name}={value!r}")
    return str(named)


def epoch_or_steps(value, name):
    """Returns `value`; raises unless it is `"epoch"` or an integer above 0."""
    is_epoch = isinstance(value, str) and value == "epoch"
    if isinstance(value, bool) or not (is_epoch or isinstance(value, numbers.Integral)):
        raise TypeError(
            f'`{name}` must be "epoch", or an integer: a number of training steps. Received: '
            f"{name}={value!r}"
        )
    return value if is_epoch else positive(value, name)


def path(value, name):
    """Returns `value` as a string, `~` as the home; raises unless it is a path, and not empty."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(
            f"`{name}` must be a path: a string or a `pathlib.Path`. Received: {name}={value!r} of "
            f"type {type(value).__name__}"
        )
    if not os.fsdecode(value):
        raise ValueError(
            f"`{name}` must be a path that is not empty. Give '.' for the current folder. "
            f"Received: {name}={value!r}"
        )
    return os.path.expanduser(os.fsdecode(value))


def local_path(value, name):
    """Returns `value` as `path` does; raises if it is a URL, too."""
    checked = path(value, name)
    if is_url(checked):
        raise ValueError(
            f"`{name}` must be on a file system of this machine, where files can be linked and "
            "renamed. Save to a local folder and copy that there and back (`tf.io.gfile`, "
            f"`gsutil cp -r`), or mount the place. Received: {name}={value!r}"
        )
    return checked


def regular_file(path):
    """Returns a path; raises ValueError if a pipe, a device or a folder is there, which may block.

    Raises:
        ValueError: It is no regular file.
        OSError: There is nothing, or the system does not say what.
    """
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        raise ValueError(
            "A file to read must be a regular file, not a folder, pipe, socket or device. "
            f"Received: {path} with mode {stat.filemode(mode)}"
        )
    return path


def is_url(value):
    """Returns whether a path is one that `tf.io.gfile` knows, and the system does not."""
    return "://" in value


def folder(value, name):
    """Returns `value` as a string; raises unless it is a path at which a folder is or may be."""
    folder_path = path(value, name)
    there = pathlib.Path(folder_path).absolute()
    while not os.path.exists(there) and there != there.parent:
        there = there.parent
    if os.path.isfile(there) and not is_url(folder_path):
        raise NotADirectoryError(
            f"`{name}` must be a folder that exists or can be made. Received: {name}={value!r}, "
            f"where '{there}' is a file"
        )
    return folder_path


def same_length(lists):
    """Raises unless all lists of the dict have as many elements."""
    lengths = {name: len(a_list) for name, a_list in lists.items()}
    if len(set(lengths.values())) > 1:
        names = ", ".join(f"`{name}`" for name in lists)
        raise ValueError(f"{names} must have one element per table. Received: lengths {lengths}")
