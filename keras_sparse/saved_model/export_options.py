import contextlib
import dataclasses
import re

from keras_sparse.saved_model.chosen_keys import RowChoice
from keras_sparse.saved_model.saved_model_scope import in_saved_model_context
from keras_sparse.saved_model.saved_model_scope import saved_model_context
from keras_sparse.utils import checks


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """Holds the arguments of `export_options`.

    Attributes:
        default: Float or `None`.
        rows: `RowChoice` of each dynamic table in a SavedModel, or `None` for all rows.
    """

    default: float | None = None
    rows: RowChoice | None = None


def current_options():
    """Returns the `ExportOptions` of the export in progress."""
    return saved_model_context().options or ExportOptions()


@contextlib.contextmanager
def export_options(default=None, rows=None):
    """Sets which rows of dynamic tables a SavedModel contains, and its default row.

    The options apply to `model.export`, `keras.export.ExportArchive.write_out` and
    `tf.saved_model.save` inside the context, in this thread. Static tables are not affected: each
    of their ids has a row.

    Args:
        default: Float. Value of all elements of the row that keys without a row read as, regardless
            of an `admission` filter. Defaults to `None`: their initial rows, as in the model.
        rows: `"most_used:N"` or `"most_recent:N"` with an integer N above 0. `"most_used:N"` keeps
            the N rows of each table with a gradient in the most training steps, for tables with
            `frequency=True` or an `LfuEvict`; of equally frequent rows the most recent, if the
            table keeps ages. `"most_recent:N"` keeps the N rows whose last gradient is most recent,
            for tables with an `eviction` policy by age. Ties go to the smallest keys. A key whose
            row is left out reads as a key without a row. Defaults to `None`: all rows.

    Raises:
        ValueError: `rows` is another value, or `default` is not a number that fits float32. The
            export raises it for a dynamic table that does not keep the ages or frequencies that
            `rows` needs.

    Example:
    >>> layer = keras_sparse.layers.Embedding(
    ...     None, 4, "mean", eviction=keras_sparse.GlobalStepEvict(1000)
    ... )
    >>> model = keras.Sequential([keras.Input((8,), dtype="int64"), layer])
    >>> with keras_sparse.serving.export_options(default=0.0, rows="most_recent:100000"):
    ...     model.export("served/1", verbose=False)
    """
    default = None if default is None else checks.float32_number(default, "default")
    with in_saved_model_context(options=ExportOptions(default, _choice(rows))):
        yield


def _choice(rows):
    if rows is None:
        return None
    found = re.fullmatch(r"(most_used|most_recent):(\d+)", rows) if isinstance(rows, str) else None
    if found is None or int(found[2]) == 0:
        raise ValueError(
            '`rows` must be "most_used:N" or "most_recent:N" with an integer N above 0, or None '
            f"for all rows. Received: rows={rows!r}"
        )
    return RowChoice(found[1], int(found[2]))
