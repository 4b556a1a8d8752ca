import contextlib
import dataclasses
import re

from keras_sparse.saved_model.chosen_keys import RowChoice
from keras_sparse.saved_model.saved_model_scope import in_saved_model_context
from keras_sparse.saved_model.saved_model_scope import saved_model_context
from keras_sparse.utils import checks


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """What `export_options` was given.

    Attributes:
        default: Float or `None`.
        rows: `RowChoice` of each dynamic table in a SavedModel, or `None` for all rows.
    """

    default: float | None = None
    rows: RowChoice | None = None


def current_options():
    """Returns the `ExportOptions` of what is exported now."""
    return saved_model_context().options or ExportOptions()


@contextlib.contextmanager
def export_options(default=None, rows=None):
    """Says what SavedModels that are written within it have of dynamic tables.

    It holds for `model.export`, `keras.export.ExportArchive.write_out` and `tf.saved_model.save` in
    this thread. Static tables are as ever: each id of theirs has a row.

    Args:
        default: Float. What keys without a row read as, in all numbers of the row, whatever an
            `admission` filter says. Defaults to `None`: their initial rows, as in the model.
        rows: `"most_used:N"` with an integer N: the N rows of each table that had gradients in the
            most training steps, as tables with `frequency=True` or an `LfuEvict` know, and no
            others; of equally frequent ones the most recent, where the table keeps ages. Or
            `"most_recent:N"`: those whose last gradient is the least old, as tables with an
            `eviction` by age know. Of equal ones those with the smallest keys. A key whose row is
            left out reads as one without a row. Defaults to `None`: all rows.

    Raises:
        ValueError: `rows` is something else, or `default` no number that float32 has. The export
            raises it of a dynamic table that does not keep what the choice needs.

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
