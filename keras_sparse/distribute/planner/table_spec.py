import dataclasses

from keras_sparse.utils import checks
from keras_sparse.utils.byte_sizes import parse_bytes
from keras_sparse.utils.row_dtypes import RowDtypes

COMBINERS = (None, "sum", "mean", "sqrtn")
# Nine petabytes: sums over tables and ranks stay integers of 64 bits.
_MOST_BYTES = 2**53


@dataclasses.dataclass(frozen=True)
class TableSpec:
    """Describes an embedding table for a plan.

    Args:
        name: String, unique among the tables of a plan.
        rows: Integer or `None`. Number of rows of a static table, or `None` for a dynamic table,
            which has no size.
        width: Integer. Number of elements in a row.
        combiner: `"sum"`, `"mean"`, `"sqrtn"` or `None`. `None` for a layer that returns one row
            per id. Defaults to `None`.
        hotness: Float, at least 0. Mean number of ids per sample. For a table with several inputs,
            optionally a list with the number of each input, in their order. Defaults to 1.
        num_slots: Integer. Number of optimizer slots that are as wide as a row: 0 for `SGD`, 1 for
            `Adagrad`, 2 for `Adam` and `LazyAdam`. Defaults to 0.
        trainable: Boolean. A table that is not trained has no slots, gradients or updates. Defaults
            to `True`.
        first_tier_bytes: Integer, in bytes, or string such as `"2GB"`. Memory of a dynamic table on
            each rank: `storage_size[0]` of its `StorageOption`. Defaults to `None`: unknown, and
            not counted in a plan.
        row_dtype: `"float32"`, `"bfloat16"` or `"float16"`: the dtype in which rows are stored.
            Defaults to `"float32"`.
        slot_dtype: `"float32"` or `"bfloat16"`: likewise for these slots. Defaults to `"float32"`.

    Raises:
        TypeError: An argument has a wrong type.
        ValueError: An argument is out of its range, or `first_tier_bytes` is given for a static
            table.

    Example:
    >>> from keras_sparse.distribute import TableSpec
    >>> users = TableSpec("users", rows=1000, width=16, combiner="sum", hotness=20, num_slots=1)
    >>> users.num_elements, users.bytes_of(1000, 16)
    (16000, 128000)
    >>> TableSpec("users", 1000, 16, num_slots=1, row_dtype="bfloat16").bytes_of(1000, 16)
    96000
    """

    name: str
    rows: int | None
    width: int
    combiner: str | None = None
    hotness: float | tuple[float, ...] = 1.0
    num_slots: int = 0
    trainable: bool = True
    first_tier_bytes: int | None = None
    row_dtype: str = "float32"
    slot_dtype: str = "float32"

    def __post_init__(self):
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"`name` must be a non-empty string. Received: name={self.name!r}")
        checked = {
            "rows": checks.positive_or_none(self.rows, "rows"),
            "width": checks.positive(self.width, "width"),
            "hotness": _check_hotness(self.hotness),
            "num_slots": checks.not_negative(self.num_slots, "num_slots"),
            "first_tier_bytes": self.first_tier_bytes
            if self.first_tier_bytes is None
            else parse_bytes(self.first_tier_bytes, "first_tier_bytes"),
        }
        checks.one_of(self.combiner, COMBINERS, "combiner")
        checks.boolean(self.trainable, "trainable")
        RowDtypes(self.row_dtype, self.slot_dtype)  # raises for another one
        if self.first_tier_bytes is not None and self.rows is not None:
            raise ValueError(
                "`first_tier_bytes` must be None for a static table, which keeps its rows in "
                f"memory. Leave it out, or pass rows=None. Received: rows={self.rows}, "
                f"first_tier_bytes={self.first_tier_bytes}"
            )
        for field, value in checked.items():
            object.__setattr__(self, field, value)
        if self.bytes_of(self.rows, self.width) >= _MOST_BYTES:
            raise ValueError(
                f"A table with its slots must take less than {_MOST_BYTES} bytes. Received: "
                f"rows={self.rows}, width={self.width}, num_slots={self.num_slots}"
            )

    @property
    def is_dynamic(self):
        """Boolean. Whether the table is dynamic: it accepts any key and has no size."""
        return self.rows is None

    @property
    def num_elements(self):
        """Integer. Elements of all rows without slots; `None` for a dynamic table."""
        return None if self.rows is None else self.rows * self.width

    def bytes_of(self, num_rows, num_columns):
        """Returns the bytes of a part of the table with its slots.

        Args:
            num_rows: Integer. `None` for a dynamic table, whose part takes `first_tier_bytes`, or 0
                if unknown.
            num_columns: Integer.

        Returns:
            Integer.
        """
        if num_rows is None:
            return self.first_tier_bytes or 0
        return num_rows * self.record_bytes(num_columns)

    def row_bytes(self, num_columns):
        """Returns the bytes of some columns of a row without slots."""
        return self._dtypes.record_bytes(num_columns, 0)

    def record_bytes(self, num_columns):
        """Returns the bytes of some columns of a row with its slots, if it is trained."""
        return self._dtypes.record_bytes(num_columns, self.num_slots if self.trainable else 0)

    @property
    def _dtypes(self):
        return RowDtypes(self.row_dtype, self.slot_dtype)

    def get_config(self):
        """Returns the arguments as a JSON-serializable dict."""
        config = dataclasses.asdict(self)
        if isinstance(self.hotness, tuple):
            config["hotness"] = list(self.hotness)
        return config

    @classmethod
    def from_config(cls, config):
        """Creates the table that `get_config` describes."""
        return cls(**config)


def _check_hotness(hotness):
    """Returns a float, or a tuple of floats."""
    if isinstance(hotness, (list, tuple)):
        return tuple(_check_number(each, f"hotness[{i}]") for i, each in enumerate(hotness))
    return _check_number(hotness, "hotness")


def _check_number(value, name):
    if checks.number(value, name) < 0:
        raise ValueError(f"`{name}` must not be below 0. Received: {name}={value}")
    return float(value)
