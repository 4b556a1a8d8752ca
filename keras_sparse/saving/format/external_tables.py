import contextlib
import contextvars

import numpy as np

from keras_sparse.saving.format.read_dataset import read_dataset

# The tables that lie beside Keras' file while one is written or read, or None.
_tables: contextvars.ContextVar[list | None] = contextvars.ContextVar("tables", default=None)


@contextlib.contextmanager
def external_tables():
    """While this is entered, Keras' file has in place of each table only its number.

    Yields:
        A list. Saving appends each variable, whose number is its place; loading appends pairs of a
        variable and the number that its place in the file has. For a table that this rank has
        nothing of, `None` is the variable.
    """
    tables: list = []
    token = _tables.set(tables)
    try:
        yield tables
    finally:
        _tables.reset(token)


def are_tables_external():
    """Returns whether `external_tables` is entered."""
    return _tables.get() is not None


def save_number(variable, store):
    """Writes a table's number into the store of its layer, if tables lie elsewhere.

    Returns:
        Boolean. Whether they do.
    """
    tables = _tables.get()
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
    tables = _tables.get()
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
