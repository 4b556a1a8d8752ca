import h5py
import numpy as np

from keras_sparse.saving.read_chunks import check_chunks
from keras_sparse.saving.table_header import TableHeader


def verify(filepath):
    """Checks every byte of the keras_sparse tables in a weights file.

    Loading does this by itself before it changes the first table. Call it before
    `model.load_weights` to know that the dense layers, which Keras loads one by one, will not be
    left half loaded.

    Args:
        filepath: Path of a `.weights.h5` file, or an open `h5py.File`.

    Returns:
        Integer. The number of tables.

    Raises:
        ValueError: A table is damaged. Names its place in the file.
        OSError: The file is truncated, or no HDF5 file.
    """
    if isinstance(filepath, h5py.File):
        return _verify(filepath)
    with h5py.File(filepath, "r") as file:
        return _verify(file)


def _verify(file):
    groups = []

    def collect(name, group):
        if (
            isinstance(group, h5py.Group)
            and name.rpartition("/")[2] == "vars"
            and "header" in group
        ):
            groups.append(group)

    file.visititems(collect)
    for group in groups:
        try:
            table = _Datasets(group)
            check_chunks(TableHeader.read(table), table)
        except (ValueError, KeyError) as error:
            raise ValueError(f"{error}. File: {file.filename}, table: {group.name}") from error
    return len(groups)


class _Datasets:
    """A group's datasets as arrays."""

    def __init__(self, group):
        self._group = group

    def __getitem__(self, name):
        dataset = self._group[name]
        if dataset.external or dataset.is_virtual:
            raise ValueError(f"A saved table must be in one file. Received: `{name}` outside of it")
        return np.asarray(dataset)
