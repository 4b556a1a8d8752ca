import contextlib
import dataclasses
import re

from keras_sparse.saved_model.chosen_keys import RowChoice
from keras_sparse.saved_model.row_encoding import ROW_ENCODINGS
from keras_sparse.saved_model.saved_model_scope import in_saved_model_context
from keras_sparse.saved_model.saved_model_scope import saved_model_context
from keras_sparse.utils import checks


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """Holds the arguments of `export_options`.

    Attributes:
        default: Float or `None`.
        rows: `RowChoice` of each dynamic table in a SavedModel, or `None` for all rows.
        row_dtype: String, one of `ROW_ENCODINGS`.
    """

    default: float | None = None
    rows: RowChoice | None = None
    row_dtype: str = "float32"

    @property
    def encoding(self):
        """The `RowEncoding` of all tables in a SavedModel."""
        return ROW_ENCODINGS[self.row_dtype]


def current_options():
    """Returns the `ExportOptions` of the export in progress."""
    return saved_model_context().options or ExportOptions()


@contextlib.contextmanager
def export_options(default=None, rows=None, row_dtype=None):
    """Sets which rows a SavedModel contains, in which dtype, and its default row.

    The options apply to `model.export`, `keras.export.ExportArchive.write_out` and
    `tf.saved_model.save` inside the context, in this thread. `default` and `rows` concern dynamic
    tables alone: each id of a static table has a row. `to_keras` ignores all options.

    Args:
        default: Float. Value of all elements of the row that keys without a row read as, regardless
            of an `admission` filter. Defaults to `None`: their initial rows, as in the model.
        rows: `"most_used:N"` or `"most_recent:N"` with an integer N above 0. `"most_used:N"` keeps
            the N rows of each table with a gradient in the most training steps, for tables with
            `frequency=True` or an `LfuEvict`; of equally frequent rows the most recent, if the
            table keeps ages. `"most_recent:N"` keeps the N rows whose last gradient is most recent,
            for tables with an `eviction` policy by age. Ties go to the smallest keys. A key whose
            row is left out reads as a key without a row. Defaults to `None`: all rows.
        row_dtype: `"float32"`, `"bfloat16"`, `"float16"` or `"int8"`: how the SavedModel stores
            the rows of all tables. Requests convert the rows that they gather to float32. 16-bit
            rows are rounded to the nearest number. int8 rows are `scale * q + offset` with a
            float32 scale and offset for each row: the scale is 1/256 of the row's range, and an
            element differs by at most half a scale and the rounding of float32 (2<sup>-22</sup> of
            the row's largest absolute value). `default` and initial rows stay float32. Defaults to
            `None`: float32, bit for bit as in the model.

    Raises:
        ValueError: `rows` or `row_dtype` is another value, or `default` is not a number that fits
            float32. The export raises it for a dynamic table that does not keep the ages or
            frequencies that `rows` needs, and for a row that `row_dtype` cannot hold: infinity or
            NaN in int8, finite numbers beyond the range of a 16-bit dtype.

    Example:
    >>> layer = keras_sparse.layers.Embedding(
    ...     None, 4, "mean", eviction=keras_sparse.GlobalStepEvict(1000)
    ... )
    >>> model = keras.Sequential([keras.Input((8,), dtype="int64"), layer])
    >>> with keras_sparse.serving.export_options(default=0.0, rows="most_recent:100000"):
    ...     model.export("served/1", verbose=False)
    """
    default = None if default is None else checks.float32_number(default, "default")
    row_dtype = "float32" if row_dtype is None else row_dtype
    row_dtype = checks.one_of(row_dtype, ROW_ENCODINGS, "row_dtype")
    with in_saved_model_context(options=ExportOptions(default, _choice(rows), row_dtype)):
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
