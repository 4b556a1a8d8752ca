import dataclasses
import difflib
import json
import pathlib

from keras_sparse.distribute.planner.table_spec import TableSpec
from keras_sparse.utils import checks

_KEYS = tuple(field.name for field in dataclasses.fields(TableSpec))
_NEEDED = ("name", "rows", "width")


def read_tables(path, num_slots=0):
    """Reads tables from a JSON file: a list with an object a table.

    Args:
        path: Path of the file. The keys of an object are the arguments of `TableSpec`, of which
            `name`, `rows` (null for a dynamic table) and `width` must be there.
        num_slots: Integer. That of the tables which do not say it.

    Returns:
        List of `TableSpec`.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is no JSON, or not a list of tables. Says where and what.
    """
    path = pathlib.Path(checks.path(path, "path"))
    try:
        content = json.loads(checks.regular_file(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # of JSON, or of UTF-8
        raise ValueError(f"Tables must be JSON. Received: {path}: {error}") from error
    if not isinstance(content, list) or not content:
        raise ValueError(
            'Tables must be a JSON list of objects such as {"name": "users", "rows": 1000, '
            f'"width": 16}}, and not empty. Received: {path}: {_shown(content)}'
        )
    return [_read(each, f"{path}: tables[{i}]", num_slots) for i, each in enumerate(content)]


def _read(config, where, num_slots):
    if not isinstance(config, dict):
        raise ValueError(
            f"A table must be a JSON object with the keys {_NEEDED}. Received: {where} = "
            f"{_shown(config)}"
        )
    for key in _NEEDED:
        if key not in config:
            hint = "; give null for a table of any keys" if key == "rows" else ""
            raise ValueError(
                f"A table must have the key '{key}'{hint}. Received: {where} with the keys "
                f"{tuple(config)}"
            )
    for key in config:
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, 1)
            hint = f"; take '{near[0]}'" if near else ""
            raise ValueError(
                f"A key of a table must be one of {_KEYS}{hint}. Received: {where} with the key "
                f"'{key}'"
            )
    try:
        return TableSpec.from_config({"num_slots": num_slots, **config})
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error}, of {where}") from error


def _shown(value):
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
