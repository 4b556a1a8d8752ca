import contextlib
import pathlib
import weakref

import numpy as np

from keras_sparse.saving.format.external_tables import load_number
from keras_sparse.saving.format.file_context import file_context
from keras_sparse.saving.format.named_store import NamedStore
from keras_sparse.saving.format.read_dataset import read_dataset
from keras_sparse.saving.keras_files.verify_file import verify_file
from keras_sparse.saving.table_format.chunks import check_chunks
from keras_sparse.saving.table_format.chunks import read_chunks
from keras_sparse.saving.table_format.chunks import read_filter_chunks
from keras_sparse.saving.table_format.saved_ages import ages_now
from keras_sparse.saving.table_format.saved_table import SavedTable
from keras_sparse.saving.table_format.table_header import TableHeader
from keras_sparse.saving.table_format.table_loader import TableLoader
from keras_sparse.tables.embedding_variable import table_of
from keras_sparse.tables.table_part import TablePart
from keras_sparse.utils.progress_bar import Progress


class _Load:
    """The state of a file while Keras loads a model from it, layer by layer."""

    def __init__(self):
        self.is_checked = False
        self.damage = None  # the damage of one of its tables
        self.failures = {}  # `id` of a variable or of an unbuilt layer: why it was not loaded


_loads: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def load_table(table, store):
    """Replaces the rows of a table by those in the store of a layer.

    Use it in `load_own_variables` of your own layer. All bytes of the file are checked before its
    first table changes, so a damaged table leaves all unchanged. (If the weights are in several
    files that `model.load_weights` has not verified, each table is checked separately.)

    Slots are restored if an optimizer of the same kind was built on the table before; otherwise
    rows get fresh slots. A lazy variant (`LazyAdam`) takes over the slots of its rule (`Adam`), and
    the other way round. Waiting keys are restored if the table has an admission filter of the same
    kind, count and size. A static table also takes the weights that a `keras.layers.Embedding` of
    its shape has saved. Progress bars are shown if checking or loading takes long.

    Args:
        table: `EmbeddingVariable` or `Table`. A variable that holds a part of a table takes that
            part of the saved one.
        store: The store that Keras passes to `load_own_variables`: `store[name]` returns an array.

    Raises:
        ValueError: A table of the file is damaged, or `table` has another shape or kind.
    """
    variable = table_of(table).local
    if isinstance(store, NamedStore):  # its rows are loaded later
        return
    if load_number(variable, store) or variable is None:
        return
    with keeps_failure(variable, store) as load:
        _load(variable, store, load)


def refuse_table(layer, name, store):
    """Raises `RuntimeError` if a file has a table for an unbuilt layer.

    Args:
        layer: What Keras loads.
        name: String, what the user calls it.
        store: What Keras hands to `load_own_variables`.
    """
    with keeps_failure(layer, store):
        if len(store.keys()):
            raise RuntimeError(
                f"Layer '{name}' must be built before its table is loaded. Call it, or "
                "`layer.build()`, first"
            )


@contextlib.contextmanager
def keeps_failure(owner, store):
    """Re-raises the first load error of `owner` if Keras retries.

    Keras asks again by other paths to the layer, where the file has nothing, and takes what
    does not fail then, or shows the last error.

    Args:
        owner: Variable or layer that is loaded.
        store: What Keras hands to `load_own_variables`.

    Yields:
        The state of the load of the whole file.
    """
    load = _load_of(store)
    try:
        yield load
    except Exception as error:
        if load.failures.setdefault(id(owner), error) is error:
            raise
    if id(owner) in load.failures:
        raise load.failures[id(owner)] from None


def _load_of(store):
    return _Load() if isinstance(store, dict) else _loads.setdefault(store, _Load())


def _load(variable, store, load):
    names = set(store.keys())
    if not names:
        raise ValueError(
            f"The weights of '{variable.path}' must be in the file. Its layer was not built when "
            "the file was saved, or the model has other layers. Build the layer after loading, "
            "or load into a model that is built in the same way"
        )
    if names == {"0"}:
        rows = _read_keras_weights(variable, store)
        if file_context().is_rehearsal:
            return
        _take_keras_weights(variable, rows)
        return
    if "header" not in names:
        raise ValueError(
            f"The weights of '{variable.path}' must be those of a table. Load a file inside a "
            "checkpoint with the checkpoint: `keras_sparse.saving.load_checkpoint(model, "
            f"folder)`. Received: datasets {sorted(names)}"
        )
    saved = _SavedInFile(variable.path, TableHeader.read(store), store)
    loader = TableLoader(variable, [saved])
    _check_whole(saved.table, store, load)
    loader.warn_of_losses()
    if file_context().is_rehearsal:
        return
    progress = Progress(saved.num_rows, "thousand rows", 1000)
    loader.load(progress)
    progress.close()
    if variable.is_dynamic and variable.part is None and variable.num_rows < saved.num_rows:
        raise ValueError(
            f"Each row of '{variable.path}' must have a unique key. An older version let ranks "
            "train separate rows for keys of other ranks: load a file saved before that. "
            f"Received: {saved.num_rows} rows of {variable.num_rows} keys"
        )


class _SavedInFile(SavedTable):
    """A whole table in one part, in a file of Keras."""

    def __init__(self, path, header, store):
        self.table = header
        self.part = TablePart.whole(path, header)
        self.num_rows = header.num_rows
        self._store = store

    def parts(self):
        return [(None, self)]

    def read_pieces(self, folder, part, unit, wanted=None):
        for piece in read_chunks(self.table, self._store):
            yield piece._replace(ages=ages_now(piece.ages, self.table.ages_clock, unit))

    def read_filter(self):
        return read_filter_chunks(self.table, self._store)


def _is_verified(store):
    """Returns whether `model.load_weights` has checked the file of this store."""
    # Keras' store of a sharded save names its map, the one of a single file its file.
    file = getattr(store, "h5_file", None)
    path = getattr(store, "path", getattr(file, "filename", None))
    return path is not None and pathlib.Path(path).resolve() == file_context().verified


def _check_whole(header, store, load):
    if _is_verified(store):
        return
    file = getattr(store, "h5_file", None)
    if file is None or hasattr(store, "sharding_config"):  # this table's chunks are all we can see
        check_chunks(header, store)
        return
    if not load.is_checked:
        load.is_checked = True
        try:
            verify_file(file)
        except ValueError as error:
            load.damage = error
    if load.damage is not None:
        raise load.damage


def _read_keras_weights(variable, store):
    shape = () if variable.is_dynamic else variable.whole_shape()  # none fits a dynamic table
    if file_context().is_growing:
        shape = None, variable.whole_shape()[1]
    try:
        rows = read_dataset(store, "0", None, shape)
        if not variable.is_dynamic and len(rows) > variable.whole_shape()[0]:
            raise ValueError(f"Received: {len(rows)} rows")
        return rows
    except ValueError as error:
        found = str(error).rpartition("Received: ")[2]
        raise ValueError(
            "The weights of a keras.layers.Embedding must be loaded into a static table of their "
            f"shape. Received: '{variable.path}' with input_dim={variable.input_dim}, output_dim="
            f"{variable.output_dim}, and {found}"
        ) from error


def _take_keras_weights(variable, rows):
    """Slots stay as they are, as in Keras, unless the table has more rows."""
    part = TablePart.of_whole(variable)
    if len(rows) == part.input_dim:
        variable.assign_all(part.cut(0, rows)[1])
        return
    variable.clear()
    ids = np.arange(len(rows))
    held = ids[part.holds(ids)]
    columns = slice(part.first_column, part.first_column + part.num_columns)
    variable.import_local(part.local_ids(held), np.float32(rows[held, columns]))
