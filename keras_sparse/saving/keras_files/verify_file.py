import contextlib
from typing import NamedTuple

import h5py

from keras_sparse.saving.format.damage_error import PARSER_ERRORS
from keras_sparse.saving.format.read_dataset import is_of_system
from keras_sparse.saving.format.read_dataset import member
from keras_sparse.saving.keras_files.local_copy import local_copy
from keras_sparse.saving.keras_files.local_copy import weight_map
from keras_sparse.saving.table_format.chunks import check_chunks
from keras_sparse.saving.table_format.chunks import find_chunks
from keras_sparse.saving.table_format.table_header import TableHeader
from keras_sparse.utils import checks


def verify_file(file):
    """Checks every byte of the tables in a weights file: see `keras_sparse.saving.verify`.

    Args:
        file: Path, URL or open `h5py.File`.

    Returns:
        Integer. The number of tables.
    """
    return len(read_tables(file, check_chunks))


def check_file(file):
    """Checks that the tables in a weights file have all their chunks, and reads none of them.

    Args:
        file: As of `verify_file`.
    """
    read_tables(file, find_chunks)


def read_headers(file):
    """Reads what a weights file says of its tables, and none of their rows.

    Args:
        file: As of `verify_file`.

    Returns:
        List of pairs, a `TablePlace` and the `TableHeader` of the table there.
    """
    return read_tables(file, lambda header, table: header)


class TablePlace(NamedTuple):
    """Where a table is in a weights file.

    Args:
        group: String. The HDF5 group, which Keras names by classes and numbers.
        name: String. The names of the layers that it is in, the last of which is the table's own.
    """

    group: str
    name: str


def read_tables(file, read):
    """Returns a list of pairs, a `TablePlace` and what `read(header, groups)` returns.

    Args:
        file: As of `verify_file`.
        read: Function of a `TableHeader` and a mapping of its datasets' names to them.
    """
    if isinstance(file, h5py.File):
        return _each_in(file, read)
    with local_copy(checks.path(file, "filepath")) as local:
        if local.suffix == ".json":
            return _each_in_shards(local, read)
        with _open(local) as opened:
            return _each_in(opened, read)


def _open(path):
    try:
        return h5py.File(checks.regular_file(path), "r")
    except FileNotFoundError:
        raise FileNotFoundError(
            "`filepath` must be a weights file, or the folder of a checkpoint. Received: "
            f"filepath='{path}', where nothing is"
        ) from None
    except (OSError, ValueError) as error:
        if is_of_system(error):
            raise
        raise _not_whole(path, error) from error


def _not_whole(path, error):
    return OSError(
        "A weights file must be a whole HDF5 file, as `save_weights` writes it. It is damaged, "
        f"or of another kind. Received: {path}: {error}"
    )


def _each_in(file, read):
    groups = []

    def collect(name, group):
        if isinstance(name, bytes):  # how h5py gives what is no UTF-8
            raise _not_whole(file.filename, f"{name!r} is no name")
        if _is_table(name, group):
            groups.append(group)

    try:
        file.visititems(collect)
    except PARSER_ERRORS as error:
        raise _not_whole(file.filename, error) from error
    return [_read_table([group], file.filename, read) for group in groups]


def _each_in_shards(path, read):
    """Reads the files that Keras' map of a sharded save names: a table may lie in several."""
    tables = []
    for name, files in weight_map(path).items():
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context(_open(path.with_name(each))) for each in files]
            groups = [file[name] for file in opened if name in file]
            if any(_is_table(name, group) for group in groups):
                tables.append(_read_table(groups, path, read))
    return tables


def _is_table(name, group):
    is_group = isinstance(group, h5py.Group)
    return is_group and name.rpartition("/")[2] == "vars" and "header" in group


def _read_table(groups, filename, read):
    try:
        table = _Groups(groups)
        place = TablePlace(groups[0].name, _name_of(groups[0]))
        return place, read(TableHeader.read(table), table)
    except (OSError, *PARSER_ERRORS) as error:
        if isinstance(error, OSError) and is_of_system(error):
            raise
        raise ValueError(f"{error}. File: {filename}, table: {groups[0].name}") from error


def _name_of(group):
    """Joins the names that Keras notes of layers; without any, as in old files, it is the group."""
    names = []
    layer = group.parent
    while layer.name != "/":  # the model
        name = layer["vars"].attrs.get("name") if "vars" in layer else None
        names += [name] if isinstance(name, str) else []
        layer = layer.parent
    return "/".join(reversed(names)) or group.name


class _Groups:
    """Groups that belong together, of which each dataset is in one."""

    def __init__(self, groups):
        self._groups = groups

    def __getitem__(self, name):
        return member(next((each for each in self._groups if name in each), self._groups[0]), name)
