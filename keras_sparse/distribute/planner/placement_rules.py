import dataclasses

from keras_sparse.distribute.planner.column_slices import num_slices_below
from keras_sparse.utils import checks


@dataclasses.dataclass(frozen=True)
class PlacementRules:
    """Decides by the thresholds of a plan, before a strategy does.

    Args:
        num_ranks: Integer.
        column_slice_threshold, row_slice_threshold, data_parallel_threshold: Integers above 0,
            elements, or `None`. As in `plan_placement`.
    """

    num_ranks: int
    column_slice_threshold: int | None = None
    row_slice_threshold: int | None = None
    data_parallel_threshold: int | None = None

    def __post_init__(self):
        for name in ("column_slice_threshold", "row_slice_threshold", "data_parallel_threshold"):
            checks.positive_or_none(getattr(self, name), name)

    def kind_of(self, table):
        """Returns `"data_parallel"` or `"row_wise"`, or `None`, where a strategy decides."""
        if self.num_ranks == 1:
            return None
        if table.is_dynamic:
            return "row_wise"
        elements = table.num_elements
        if self.data_parallel_threshold and elements <= self.data_parallel_threshold:
            return "data_parallel"
        if self.row_slice_threshold and elements >= self.row_slice_threshold:
            return "row_wise"
        return None

    def num_slices_of(self, table):
        """Returns into how many slices the table is cut at least."""
        if self.column_slice_threshold is None or table.is_dynamic:
            return 1
        return num_slices_below(table, self.column_slice_threshold, self.num_ranks)
