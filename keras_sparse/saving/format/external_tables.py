import contextlib

import numpy as np

from keras_sparse.saving.format.file_context import file_context
from keras_sparse.saving.format.file_context import in_file_context
from keras_sparse.saving.format.read_dataset import read_dataset


@contextlib.contextmanager
def external_tables():
    """While this is entered, Keras' file has in place of each table only its number.

    Yields:
        A list. Saving appends each variable, whose number is its place; loading appends pairs of a
        variable and the number that its place in the file has. For a table that this rank has
        nothing of, `None` is the variable.
    """
    tables: list = []
    with in_file_context(tables=tables):
        yield tables


def are_tables_external():
    """Returns whether `external_tables` is entered."""
    return file_context().tables is not None


def save_number(variable, store):
    """Writes a table's number into the store of its layer, if tables lie elsewhere.

    Returns:
        Boolean. Whether they do.
    """
    tables = file_context().tables
    if tables is None:
        return False
    store["table"] = np.array(len(tables), np.int64)
    tables.append(variable)
    return True


def load_number(variable, store):
    """Reads the number of a table from the store of its layer, if tables lie elsewhere.

    Returns:
        Boolean. Whether they do.
    """
    tables = file_context().tables
    if tables is None:
        return False
    tables.append((variable, number_of(store)))
    return True


def number_of(store):
    """Returns the number that is in the place of a table in a Keras file of a checkpoint."""
    try:
        return int(read_dataset(store, "table", np.int64, ()))
    except KeyError:
        raise ValueError(
            "A table must be one of the checkpoint. Received: a layer that was no table, or was "
            f"not there, when it was saved, with the variables {sorted(store.keys())}"
        ) from None
