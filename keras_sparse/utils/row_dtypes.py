import dataclasses

import numpy as np

from keras_sparse.utils import checks

ROW_DTYPES = ("float32", "bfloat16", "float16")
SLOT_DTYPES = ("float32", "bfloat16")
ROUNDINGS = ("stochastic", "nearest")

_WORD_BYTES = 4
_FLOAT16_INFINITY = 65_520.0  # the least number that rounds to it
_FLOAT_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclasses.dataclass(frozen=True)
class RowDtypes:
    """The dtypes in which a table stores rows and slots, and how updates round to them.

    Args:
        row: String, one of `ROW_DTYPES`.
        slots: String, one of `SLOT_DTYPES`: of slots with one float per element. Slots with one
            float per row are float32.
        rounding: String, one of `ROUNDINGS`.
    """

    row: str = "float32"
    slots: str = "float32"
    rounding: str = "stochastic"

    def __post_init__(self):
        checks.one_of(self.row, ROW_DTYPES, "row_dtype")
        checks.one_of(self.slots, SLOT_DTYPES, "slot_dtype")
        checks.one_of(self.rounding, ROUNDINGS, "rounding")

    @classmethod
    def from_saved_fields(cls, fields):
        """Takes the dtypes out of the fields of a saved table; those left out are float32."""
        return cls(fields.pop("row_dtype", "float32"), fields.pop("slot_dtype", "float32"))

    def saved_fields(self):
        """Returns the dtypes as a dict for JSON: an empty one if all are float32."""
        return {} if self.are_float32 else {"row_dtype": self.row, "slot_dtype": self.slots}

    @property
    def are_float32(self):
        """Boolean. Whether rows and slots are both float32."""
        return self.row == self.slots == "float32"

    def check_range(self, rows, name, path):
        """Checks that rows can be stored: float16 holds no number beyond 65,504.

        Args:
            rows: Array or tensor of floats, of any shape.
            name: String. Name of the argument.
            path: String. Name of the table.

        Raises:
            ValueError: A finite number rounds to infinity.
        """
        if self.row != "float16":
            return
        rows = np.asarray(rows)
        beyond = rows[np.isfinite(rows) & (np.abs(rows) >= _FLOAT16_INFINITY)]
        if len(beyond):
            raise ValueError(
                f"`{name}` must be within 65,504 for a table with row_dtype='float16'. Use "
                f"'bfloat16' for larger numbers. Received: {beyond[0]:g} for table '{path}'"
            )

    def record_bytes(self, width, num_slots):
        """Returns the bytes of a row and its slots, each of which ends at a whole word.

        Args:
            width: Integer. Width of a row.
            num_slots: Integer. Slots with one float per element.
        """
        slots = num_slots * _whole_words(width * _FLOAT_BYTES[self.slots])
        return _whole_words(width * _FLOAT_BYTES[self.row]) + slots


FLOAT32 = RowDtypes()


def _whole_words(num_bytes):
    return -(-num_bytes // _WORD_BYTES) * _WORD_BYTES
