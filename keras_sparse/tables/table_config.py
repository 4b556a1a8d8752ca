import dataclasses
from typing import Any

from keras_sparse.storage.admission_filter import check_admission
from keras_sparse.storage.eviction_policy import check_eviction
from keras_sparse.storage.storage_option import check_storage
from keras_sparse.tables.initial_rows import check_initializer
from keras_sparse.tables.table_part import check_part
from keras_sparse.tables.table_part import TablePart
from keras_sparse.utils import checks
from keras_sparse.utils.row_dtypes import RowDtypes


@dataclasses.dataclass(frozen=True)
class TableConfig:
    """The options of a table, checked, which layers, parts and copies of tables hand on as one.

    Args: Those of `EmbeddingVariable`: `EmbeddingVariable(**vars(config))` makes the table.
    """

    input_dim: int | None
    output_dim: int
    initializer: Any = "uniform"
    seed: int | None = None
    out_of_range: str = "error"
    storage: Any = None
    admission: Any = None
    eviction: Any = None
    trainable: bool = True
    name: str = "embeddings"
    part: TablePart | None = None
    max_rows: int | None = None
    frequency: bool = False
    row_dtype: str = "float32"
    slot_dtype: str = "float32"
    rounding: str = "stochastic"

    def __post_init__(self):
        input_dim = self.input_dim
        check_part(self.part, input_dim, self.output_dim)
        if self.part is None:  # a part may have no rows
            input_dim = checks.positive_or_none(input_dim, "input_dim")
        # Frozen for all but this.
        vars(self).update(
            input_dim=input_dim,
            output_dim=checks.positive(self.output_dim, "output_dim"),
            initializer=check_initializer(self.initializer, input_dim),
            seed=checks.integer_or_none(self.seed, "seed"),
            out_of_range=checks.one_of(self.out_of_range, ("error", "zero"), "out_of_range"),
            storage=check_storage(self.storage, input_dim),
            admission=check_admission(self.admission, input_dim),
            eviction=check_eviction(self.eviction, input_dim, self.max_rows),
            trainable=checks.boolean(self.trainable, "trainable"),
            max_rows=check_row_limit(self.max_rows, input_dim),
            frequency=check_frequency(self.frequency, input_dim),
        )
        RowDtypes(self.row_dtype, self.slot_dtype, self.rounding)  # raises for another one

    @property
    def dtypes(self):
        """The `RowDtypes` of the table."""
        return RowDtypes(self.row_dtype, self.slot_dtype, self.rounding)

    @classmethod
    def of_layer(cls, layer):
        """Returns the config of the table that an `Embedding` would make, as a trainable one."""
        options = {name: getattr(layer, name) for name in LAYER_OPTIONS}
        return cls(initializer=layer.embeddings_initializer, **options)

    def of_part(self, part):
        """Returns the config of a part of this table: a `TablePart`."""
        rows, columns = part.shape
        return dataclasses.replace(self, input_dim=rows, output_dim=columns, part=part)


# The fields that an `Embedding` has as arguments and attributes of the same names.
LAYER_OPTIONS = tuple(
    each.name
    for each in dataclasses.fields(TableConfig)
    if each.name not in ("initializer", "trainable", "name", "part")
)


def check_frequency(frequency, input_dim):
    """Returns whether a table counts how often its rows are trained, or raises an error."""
    frequency = checks.boolean(frequency, "frequency")
    if frequency and input_dim is not None:
        raise ValueError(
            "`frequency` must be used with a dynamic table: all ids of a static one keep their "
            "rows. Pass input_dim=None, or leave `frequency` out. Received: "
            f"input_dim={input_dim} with frequency=True"
        )
    return frequency


def check_row_limit(max_rows, input_dim):
    """Returns the most rows that a table may have, or `None` for any number."""
    checks.positive_or_none(max_rows, "max_rows")
    if max_rows is not None and input_dim is not None:
        raise ValueError(
            "`max_rows` must be used with a dynamic table: a static one has all its rows. Pass "
            f"input_dim=None, or leave `max_rows` out. Received: input_dim={input_dim} with "
            f"max_rows={max_rows}"
        )
    return max_rows
