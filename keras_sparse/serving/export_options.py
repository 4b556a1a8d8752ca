import contextlib
import contextvars
import dataclasses
import re

from keras_sparse import checks


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """What `export_options` was given.

    Attributes:
        default: Float or `None`.
        most_recent: Integer or `None`. The most rows of each dynamic table in a SavedModel.
    """

    default: float | None = None
    most_recent: int | None = None


_NONE = ExportOptions()
_options = contextvars.ContextVar("options", default=_NONE)


def current_options():
    """Returns the `ExportOptions` of what is exported now."""
    return _options.get()


@contextlib.contextmanager
def export_options(default=None, rows=None):
    """Says what SavedModels that are written within it have of dynamic tables.

    It holds for `model.export`, `keras.export.ExportArchive.write_out` and `tf.saved_model.save` in
    this thread. Static tables are as ever: each id of theirs has a row.

    Args:
        default: Float. What keys without a row read as, in all numbers of the row, whatever an
            `admission` filter says. Defaults to `None`: their initial rows, as in the model.
        rows: `"most_recent:N"` with an integer N: the N rows of each table whose last gradient is
            the least old, as tables with an `eviction` by age know, and no others; of equally old
            ones those with the smallest keys. A key whose row is left out reads as one without a
            row. Defaults to `None`: all rows.

    Raises:
        ValueError: `rows` is something else, or `default` no number that float32 has. The export
            raises it of a dynamic table that keeps no ages.

    Example:
    >>> layer = keras_sparse.layers.Embedding(
    ...     None, 4, "mean", eviction=keras_sparse.GlobalStepEvict(1000)
    ... )
    >>> model = keras.Sequential([keras.Input((8,), dtype="int64"), layer])
    >>> with keras_sparse.saving.export_options(default=0.0, rows="most_recent:100000"):
    ...     model.export("served/1", verbose=False)
    """
    default = None if default is None else checks.float32_number(default, "default")
    token = _options.set(ExportOptions(default, _most_recent(rows)))
    try:
        yield
    finally:
        _options.reset(token)


def _most_recent(rows):
    if rows is None:
        return None
    found = re.fullmatch(r"most_recent:(\d+)", rows) if isinstance(rows, str) else None
    if found is None or int(found[1]) == 0:
        raise ValueError(
            '`rows` must be "most_recent:N" with an integer N above 0, or None for all rows. '
            f"Received: rows={rows!r}"
        )
    return int(found[1])
