import dataclasses

import numpy as np

from keras_sparse.distribute.planner.placement_costs import PlacementCosts
from keras_sparse.distribute.planner.rank_loads import RankLoads
from keras_sparse.distribute.planner.refine import refine
from keras_sparse.distribute.planner.table_placement import TablePlacement
from keras_sparse.distribute.planner.table_spec import TableSpec
from keras_sparse.distribute.planner.threshold_placement import place_by_threshold

PLAIN_STRATEGIES = ("basic", "memory_balanced", "memory_optimized")
_NUM_BOUNDS = 16


def auto_placement(tables, rules, memory_budget, cost_model):
    """Looks for the placement whose slowest rank is fastest, by the cost model.

    Plans are made for several bounds of what a slice may take: each table gets the kind that takes
    the least mean time among those within the bound, and slices go to the ranks, the longest first.
    What does not fit the memory is spread by rows. The best of these, of the plain strategies and
    of all tables spread by rows is then changed as long as that makes it faster.

    Args:
        tables: List of `TableSpec`.
        rules: `PlacementRules`.
        memory_budget: Integer, bytes a rank, or `None`.
        cost_model: `CostModel`.

    Returns:
        List of a `TablePlacement` a table, or `None` if no plan was found that fits the memory.
    """
    num_ranks = rules.num_ranks
    options = _options(tables, rules, cost_model)
    books = [
        RankLoads.of(placements, options, num_ranks, memory_budget)
        for placements in _plain_plans(tables, options, rules)
    ]
    may_copy = _may_copy(options, num_ranks, memory_budget)
    tried = []
    for bound in _bounds(options, num_ranks):
        kinds = [each.best_kind(bound, copy) for each, copy in zip(options, may_copy, strict=True)]
        if kinds not in tried:
            tried.append(kinds)
            books.append(_spread(kinds, options, num_ranks, memory_budget))
    books = [book for book in books if book.fits]
    if not books:
        return None
    return refine(min(books, key=lambda book: book.score)).placements


def _options(tables, rules, cost_model):
    """Returns the `PlacementCosts` of each table; equal tables share theirs."""
    made: dict[TableSpec, PlacementCosts] = {}
    options = []
    for table in tables:
        nameless = dataclasses.replace(table, name="-")
        if nameless not in made:
            made[nameless] = PlacementCosts(nameless, rules, cost_model)
        options.append(made[nameless])
    return options


def _plain_plans(tables, options, rules):
    for strategy in PLAIN_STRATEGIES:
        yield place_by_threshold(tables, strategy, rules)[0]
    yield [each.whole if each.fixed_kind == "data_parallel" else each.by_rows for each in options]


def _may_copy(options, num_ranks, memory_budget):
    """Returns, for each table, whether there is room for a copy of it on all ranks.

    It is given to those that gain the most time a byte.
    """
    if memory_budget is None:
        return [True] * len(options)
    room = num_ranks * memory_budget
    for each in options:
        if each.fixed_kind == "row_wise":
            room -= int(each.row_bytes.sum())
        else:
            room -= each.copy_bytes * (num_ranks if each.fixed_kind else 1)
    may_copy = [False] * len(options)
    gains = []
    for i, each in enumerate(options):
        other = min(each.row_seconds, each.mean_seconds(each.slice_counts[0]))
        if each.fixed_kind is None and each.copy_seconds < other:
            extra = (num_ranks - 1) * each.copy_bytes
            gains.append(((each.copy_seconds - other) / extra, i, extra))
    for _, i, extra in sorted(gains):
        if extra <= room:
            may_copy[i] = True
            room -= extra
    return may_copy


def _bounds(options, num_ranks):
    """Yields what a slice may take at most, in seconds, from any time to a part of the mean."""
    free = [each for each in options if each.fixed_kind is None]
    own = [each.of_slice(each.columns_of(each.slice_counts[0])[0])[1] for each in free]
    yield np.inf
    if own and max(own) > 0:
        yield from np.geomspace(max(own), min(max(own), sum(own) / num_ranks) / 4, _NUM_BOUNDS)


def _spread(kinds, options, num_ranks, memory_budget):
    """Returns a `RankLoads` with a table of each of the kinds, or spread by rows where it must."""
    while True:
        book = RankLoads(options, num_ranks, memory_budget)
        for i, kind in enumerate(kinds):
            if kind == "row_wise":
                book.put(i, options[i].by_rows)
            elif kind == "data_parallel":
                book.put(i, options[i].whole)
        without_room = _spread_columns(book, kinds)
        if not without_room:
            return book
        kinds = ["row_wise" if i in without_room else kind for i, kind in enumerate(kinds)]


def _spread_columns(book, kinds):
    """Places what is cut by columns, the longest slices first; returns the set that has no room."""

    def longest(i):
        options = book.options[i]
        return -options.of_slice(options.columns_of(kinds[i])[0])[1], -options.copy_bytes, i

    without_room = set()
    for i in sorted((i for i, kind in enumerate(kinds) if isinstance(kind, int)), key=longest):
        options = book.options[i]
        parts = book.find_ranks(i, options.columns_of(kinds[i]))
        if parts is None:
            without_room.add(i)
        else:
            book.put(i, TablePlacement.by_columns(options.table, parts))
    return without_room
