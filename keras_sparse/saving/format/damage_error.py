"""Errors that damage of a file raises while it is read."""

import dataclasses
import struct
import types
import typing
import zipfile
import zlib

# Parsers of JSON, HDF5 and zip files raise these, beside OSError, for bytes that they cannot read.
PARSER_ERRORS = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RuntimeError,  # and RecursionError and NotImplementedError, which are some
    EOFError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


class CheckpointDamagedError(ValueError):
    """Raised if a file of a checkpoint is missing or differs from what was saved."""


def check_types(parsed):
    """Returns a dataclass parsed from JSON; raises `TypeError` for a wrong field type."""
    for field in dataclasses.fields(parsed):
        value = getattr(parsed, field.name)
        if not _is_of(value, field.type):
            raise TypeError(f"`{field.name}` must be {field.type}. Received: {value!r}"[:500])
    return parsed


def _is_of(value, kind):
    origin, kinds = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:
        return any(_is_of(value, each) for each in kinds)
    if origin is tuple and isinstance(value, tuple):
        kinds = kinds[:1] * len(value) if kinds[-1] is ... else kinds
        return len(kinds) == len(value) and all(map(_is_of, value, kinds))
    if origin is dict and isinstance(value, dict):
        return all(_is_of(each, kinds[1]) for each in value.values())
    if dataclasses.is_dataclass(value):
        return isinstance(value, kind) and check_types(value) is value
    return isinstance(value, (int, float) if kind is float else origin or kind)
