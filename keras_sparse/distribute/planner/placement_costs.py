import numpy as np

from keras_sparse.distribute.planner.column_slices import even_columns
from keras_sparse.distribute.planner.memory_budget import bytes_of_ranks
from keras_sparse.distribute.planner.table_placement import TablePlacement

# What is on all ranks must be that much faster than what is on some.
_GAIN = 1.01


class PlacementCosts:
    """The ways in which `"auto"` may place a table, with what each of them costs.

    Attributes:
        table: `TableSpec`.
        num_ranks: Integer.
        fixed_kind: `"row_wise"` or `"data_parallel"`, if a threshold decides; otherwise `None`.
        slice_counts: List of integers, ascending: into how many slices it may be cut. Doubled each
            time, as all numbers of many ranks would be slow to try.
        by_rows, whole: `TablePlacement`, spread by rows and copied to all ranks.
        row_seconds, row_bytes: Seconds of each rank, and bytes, an int64 array of shape
            `(num_ranks,)`, if it is spread by rows.
        copy_seconds, copy_bytes: Seconds and bytes of each rank, if all have it.

    Args:
        table: `TableSpec`.
        rules: `PlacementRules`.
        cost_model: `CostModel`.
    """

    def __init__(self, table, rules, cost_model):
        self.table, self.num_ranks = table, rules.num_ranks
        self.fixed_kind = rules.kind_of(table)
        self._cost_model, self._slices = cost_model, {}
        most = min(rules.num_ranks, table.width)
        self.slice_counts = _doubled(rules.num_slices_of(table), most)
        self.by_rows = TablePlacement.by_rows(table, rules.num_ranks)
        self.whole = TablePlacement.whole(table, rules.num_ranks)
        self.row_seconds = cost_model.row_wise(table, rules.num_ranks)
        self.row_bytes = bytes_of_ranks([table], [self.by_rows], rules.num_ranks)
        self.copy_bytes = table.bytes_of(table.rows, table.width)
        self.copy_seconds = np.inf
        if not table.is_dynamic:
            self.copy_seconds = cost_model.data_parallel(table, rules.num_ranks)

    def of_slice(self, num_columns):
        """Returns the seconds of every rank, those of its rank beside them, and the bytes."""
        if num_columns not in self._slices:
            seconds = self._cost_model.column_slice(self.table, num_columns, self.num_ranks)
            its_bytes = self.table.bytes_of(self.table.rows, num_columns)
            self._slices[num_columns] = (*seconds, its_bytes)
        return self._slices[num_columns]

    def columns_of(self, num_slices):
        """Returns the widths of `num_slices` slices."""
        return even_columns(self.table.width, num_slices)

    def mean_seconds(self, num_slices):
        """Returns the seconds of a rank if those of the slices were the same on all ranks."""
        costs = [self.of_slice(columns) for columns in self.columns_of(num_slices)]
        return sum(every + its_own / self.num_ranks for every, its_own, _ in costs)

    def slices_below(self, seconds):
        """Returns the least of `slice_counts` whose slices take at most so long, or `None`."""
        for count in self.slice_counts:
            if self.of_slice(self.columns_of(count)[0])[1] <= seconds:
                return count
        return None

    def best_kind(self, seconds, may_copy):
        """Returns the kind with the least mean seconds.

        Args:
            seconds: Float. What a slice may take beside the seconds of every rank.
            may_copy: Boolean. Whether memory allows for `"data_parallel"`.

        Returns:
            `"row_wise"`, `"data_parallel"`, or an integer, the number of slices by columns.
        """
        if self.fixed_kind is not None:
            return self.fixed_kind
        choices = [(self.row_seconds * _GAIN, "row_wise")]
        if may_copy:
            choices.append((self.copy_seconds * _GAIN, "data_parallel"))
        count = self.slices_below(seconds)
        if count is not None:
            choices.append((self.mean_seconds(count), count))
        return min(choices, key=lambda choice: choice[0])[1]


def _doubled(least, most):
    counts = [least]
    while counts[-1] * 2 < most:
        counts.append(counts[-1] * 2)
    return counts if counts[-1] == most else [*counts, most]
