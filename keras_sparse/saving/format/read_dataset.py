"""Datasets of files that may come from elsewhere: what they claim is checked before it is read."""

import contextlib
import math

import h5py
import numpy as np

# A dataset that claims more than this must have some of it in the file. No chunk of ours does.
_FREE_BYTES = 64 << 20
# What compression can do at most, if a file was packed again.
_MOST_EXPANSION = 1000


def read_dataset(store, name, dtype, shape):
    """Returns an array of a store, which takes no memory before it is known to be what it must be.

    Args:
        store: `h5py.Group`, what Keras hands to `load_own_variables`, or a dict.
        name: String. Its path in the store.
        dtype: The only one it may have; `None` for any number.
        shape: Tuple, with `None` for any length.

    Raises:
        ValueError: It is of another dtype or shape, or not in the file itself.
        KeyError: There is none.
        OSError: It cannot be read.
    """
    dataset = checked_dataset(store, name, dtype, shape)
    # Keras' store knows of dtypes that HDF5 does not have.
    return np.asarray(dataset if isinstance(dataset, np.ndarray) else store[name])


def checked_dataset(store, name, dtype, shape):
    """Returns what `find_dataset` does, once it is of a dtype and shape: see `read_dataset`."""
    dataset = find_dataset(store, name)
    is_shape = len(dataset.shape) == len(shape) and all(
        wanted in (None, length) for wanted, length in zip(shape, dataset.shape, strict=True)
    )
    is_dtype = dataset.dtype.kind in "biufV" if dtype is None else dataset.dtype == dtype
    if not is_shape or not is_dtype:
        raise ValueError(
            "A saved table's chunks must have the shapes its header says. The file is damaged. "
            f"Received: `{name}` of shape {dataset.shape} and dtype {dataset.dtype}, not {shape}"
            f"{'' if dtype is None else f' and {np.dtype(dtype)}'}"
        )
    return dataset


def find_dataset(store, name):
    """Returns a dataset of a store, or an array, before its values are read.

    Args:
        store, name: As for `read_dataset`.

    Raises:
        ValueError: It is no array, or claims more bytes than its file has.
    """
    with _one_class_of_errors():
        dataset = _find(store, name)
        if getattr(dataset, "shape", None) is None:  # a group, or an array of no shape
            raise ValueError(
                "A saved table must have arrays under the names of its chunks. The file is "
                f"damaged. Received: `{name}`: {dataset}"
            )
        if isinstance(dataset, h5py.Dataset):
            _check_stored(dataset, name)
        return dataset


def member(group, path):
    """Returns what a group has at a path, without following links to elsewhere."""
    with _one_class_of_errors():
        for name in path.strip("/").split("/"):
            if not isinstance(group, h5py.Group):
                raise ValueError(
                    "A saved table must lie in groups. The file is damaged. Received: "
                    f"`{path}`, which leads through {group}"
                )
            link = group.get(name, getlink=True)
            if link is None:
                raise KeyError(f"'{path}' is not there")
            if not isinstance(link, h5py.HardLink):
                raise ValueError(f"A saved table must be in one file. Received: link `{path}`")
            group = group[name]
    return group


@contextlib.contextmanager
def _one_class_of_errors():
    """h5py has OSError for a damaged dataset, and RuntimeError for one that it only looks for."""
    try:
        yield
    except RuntimeError as error:
        raise OSError(str(error)) from error


def _find(store, name):
    """The dataset, or an array where the store shows no more of it."""
    group = getattr(store, "_h5_entry_group", store)  # Keras' store itself gives arrays alone
    if isinstance(group, h5py.HLObject) and (group is store or name in group):
        return member(group, name)
    found = store[name]
    return found if isinstance(found, h5py.HLObject) else np.asarray(found)


def _check_stored(dataset, name):
    if dataset.external or dataset.is_virtual:
        raise ValueError(f"A saved table must be in one file. Received: `{name}` outside of it")
    claimed = math.prod(dataset.shape) * dataset.dtype.itemsize
    stored = dataset.id.get_storage_size()
    if claimed > max(_FREE_BYTES, _MOST_EXPANSION * stored):
        raise ValueError(
            "A saved table's chunks must be in its file. The file is damaged. Received: "
            f"`{name}` of {claimed} bytes, of which {stored} are stored"
        )


def is_of_system(error):
    """Returns whether an error says nothing of the file: the system has not let it be read.

    h5py raises the same class for what it has read and what is no HDF5, but without a number.
    """
    return getattr(error, "errno", None) is not None
