"""What a save or a load of Keras' files wants of the code that Keras calls for each layer.

Keras gives that code a store alone: nothing else reaches it.
"""

import contextvars
import dataclasses
from typing import Any

from keras_sparse.utils.changed_context import changed_context


@dataclasses.dataclass(frozen=True)
class FileContext:
    """A save or a load that runs. The defaults are those of a file that Keras handles by itself.

    Attributes:
        tables: List that gets the tables that lie elsewhere: see `external_tables`.
        saved: List that gets each table that is saved to a file.
        shared_file: The file that ranks write together: see `rank_0_file`.
        disks: List that gets the files that `new_hdf5_file` makes: see `hdf5_write_errors`.
        verified: `pathlib.Path` of the file that `load_weights` has verified and loads now.
        is_rehearsal: Boolean. Whether tables only see whether they could be loaded.
        is_growing: Boolean. Whether a table may take over one of fewer rows.
        verifies: Boolean. Whether all tables are read before one changes.
    """

    tables: list | None = None
    saved: list | None = None
    shared_file: Any = None
    disks: list | None = None
    verified: Any = None
    is_rehearsal: bool = False
    is_growing: bool = False
    verifies: bool = True


_NONE = FileContext()
_context: contextvars.ContextVar[FileContext] = contextvars.ContextVar("file", default=_NONE)


def file_context():
    """Returns the `FileContext` of the save or load that runs."""
    return _context.get()


def in_file_context(**changes):
    """While this is entered, `file_context` returns the one before with some attributes changed."""
    return changed_context(_context, changes)
