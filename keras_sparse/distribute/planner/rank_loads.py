import numpy as np

from keras_sparse.distribute.planner.table_placement import COLUMN_KINDS

# A change that gains a smaller part than this is not worth a more complicated plan.
_LEAST_GAIN = 1e-3


class RankLoads:
    """The loads of the ranks so far, while `"auto"` looks for a plan.

    Attributes:
        every_rank: Float. Seconds that all ranks take alike.
        own: float64 array of shape `(num_ranks,)`: seconds of each rank beside them.
        bytes: int64 array of shape `(num_ranks,)`.
        placements: List of a `TablePlacement` a table, `None` where it has none yet.
        columns: List of a dict a rank: by the index of a table, the number of its columns there,
            of tables that are `table_wise` or `column_wise`.

    Args:
        options: List of a `PlacementCosts` a table.
        num_ranks: Integer.
        memory_budget: Integer, bytes a rank, or `None`.
    """

    def __init__(self, options, num_ranks, memory_budget=None):
        self.options, self.num_ranks = options, num_ranks
        self.memory_budget = np.iinfo(np.int64).max if memory_budget is None else memory_budget
        self.every_rank = 0.0
        self.own = np.zeros(num_ranks)
        self.bytes = np.zeros(num_ranks, np.int64)
        self.placements = [None] * len(options)
        self.columns: list[dict[int, int]] = [{} for _ in range(num_ranks)]

    @classmethod
    def of(cls, placements, options, num_ranks, memory_budget=None):
        """Returns a book with a placement of each table."""
        book = cls(options, num_ranks, memory_budget)
        for i, placement in enumerate(placements):
            book.put(i, placement)
        return book

    def put(self, i, placement):
        """Places table `i`, which has no place."""
        self.placements[i] = placement
        self._count(i, placement, 1)
        if placement.kind in COLUMN_KINDS:
            for each in placement.slices:
                self.columns[each.rank][i] = each.num_columns

    def take(self, i):
        """Returns the placement of table `i`, which then has none."""
        placement, self.placements[i] = self.placements[i], None
        self._count(i, placement, -1)
        if placement.kind in COLUMN_KINDS:
            for each in placement.slices:
                del self.columns[each.rank][i]
        return placement

    def slices_on(self, rank):
        """Returns pairs of the seconds of a slice by columns and its table, the longest first."""
        return sorted(
            (
                (self.options[i].of_slice(columns)[1], i)
                for i, columns in self.columns[rank].items()
            ),
            key=lambda its: (-its[0], its[1]),
        )

    def find_ranks(self, i, widths):
        """Returns pairs of a rank and a number of columns, or `None` where there is no room.

        The first slice goes to the rank with the least seconds that has room, of equal ones to that
        with the least bytes; the next to the next rank, and so on.

        Args:
            i: Integer. Index of a table that has no place.
            widths: List of integers: the columns of its slices, descending.
        """
        its_bytes = self.options[i].of_slice(widths[0])[2]  # none is wider than the first
        order = np.lexsort((self.bytes, self.own))
        order = order[self.bytes[order] <= self.memory_budget - its_bytes]
        if len(order) < len(widths):
            return None
        return list(zip(order[: len(widths)].tolist(), widths, strict=True))

    @property
    def fits(self):
        """Boolean. Whether no rank has more than the budget."""
        return bool((self.bytes <= self.memory_budget).all())

    @property
    def score(self):
        """Pair of floats, less is better: seconds of the slowest rank, and the sum of squares."""
        seconds = self.own + self.every_rank
        return float(seconds.max()), float(seconds @ seconds)

    def _count(self, i, placement, sign):
        options = self.options[i]
        if placement.kind == "row_wise":
            self.every_rank += sign * options.row_seconds
            self.bytes += sign * options.row_bytes
        elif placement.kind == "data_parallel":
            self.every_rank += sign * options.copy_seconds
            self.bytes += sign * options.copy_bytes
        else:
            for each in placement.slices:
                every_rank, own, its_bytes = options.of_slice(each.num_columns)
                self.every_rank += sign * every_rank
                self.own[each.rank] += sign * own
                self.bytes[each.rank] += sign * its_bytes

    def is_better_than(self, score):
        """Returns whether the score has become better than another, and by how much counts.

        Where several ranks are the slowest, it is enough that one of them is faster.
        """
        slowest, squares = self.score
        if slowest < score[0] * (1 - _LEAST_GAIN):
            return True
        is_as_fast = slowest <= score[0] * (1 + 1e-12)  # but for the rounding of sums
        return is_as_fast and squares < score[1] * (1 - _LEAST_GAIN / self.num_ranks)
