import heapq

from keras_sparse.distribute.planner.column_slices import even_columns
from keras_sparse.distribute.planner.column_slices import num_slices_for_all_ranks
from keras_sparse.distribute.planner.table_placement import TablePlacement


def place_by_threshold(tables, strategy, rules):
    """Places tables by their sizes: what thresholds do not decide, a strategy deals to the ranks.

    Args:
        tables: List of `TableSpec`.
        strategy: One of those of `deal`.
        rules: `PlacementRules`.

    Returns:
        List of a `TablePlacement` a table, and a list a rank of the indices of its tables: those
        that it has columns of, in the order in which it got them, then those it has rows of, then
        the replicated ones.
    """
    num_ranks = rules.num_ranks
    kinds = [rules.kind_of(table) for table in tables]
    dealt = [i for i, kind in enumerate(kinds) if kind is None]
    pieces = _cut([tables[i] for i in dealt], rules)
    pieces = [(dealt[i], columns) for i, columns in pieces]  # index of the table, columns
    if num_ranks == 1:  # dynamic tables have no size, nor need one
        ranks = [list(range(len(pieces)))]
    else:
        sizes = [tables[i].rows * columns for i, columns in pieces]
        ranks = assign_slices(strategy, sizes, [i for i, _ in pieces], num_ranks)

    rank_of = {piece: rank for rank, its_pieces in enumerate(ranks) for piece in its_pieces}
    parts: dict[int, list] = {i: [] for i in dealt}
    for piece, (i, columns) in enumerate(pieces):
        parts[i].append((rank_of[piece], columns))
    placements = [_place(tables[i], kinds[i], parts.get(i), num_ranks) for i in range(len(tables))]
    on_all = [i for kind in ("row_wise", "data_parallel") for i in _which(kinds, kind)]
    its_tables = [list(dict.fromkeys(pieces[piece][0] for piece in rank)) for rank in ranks]
    return placements, [each + on_all for each in its_tables]


def _cut(tables, rules):
    """Returns pairs of the index of a table and the columns of a slice, in order of both."""
    if rules.num_ranks == 1:
        counts = [1] * len(tables)
    elif rules.column_slice_threshold is None:
        counts = num_slices_for_all_ranks(tables, rules.num_ranks)
    else:
        counts = [rules.num_slices_of(table) for table in tables]
    return [
        (i, columns)
        for i, count in enumerate(counts)
        for columns in even_columns(tables[i].width, count)
    ]


def _place(table, kind, parts, num_ranks):
    if kind == "data_parallel":
        return TablePlacement.whole(table, num_ranks)
    if kind == "row_wise":
        return TablePlacement.by_rows(table, num_ranks)
    return TablePlacement.by_columns(table, parts)


def _which(kinds, kind):
    return [i for i, each in enumerate(kinds) if each == kind]


def assign_slices(strategy, sizes, tables, num_ranks):
    """Deals slices to ranks.

    The three ways, with their order of equal ones, are those of NVIDIA Merlin
    distributed-embeddings 1.0. The last is Graham's rule of the longest first ("Bounds on
    multiprocessing timing anomalies", SIAM Journal on Applied Mathematics 17, 1969), which makes
    no rank larger than 4/3 - 1/(3 num_ranks) of what is possible.

    Args:
        strategy: `"basic"`: in turn. `"memory_balanced"`: the largest first, in turn forwards and
            backwards, so that ranks have as many slices, give or take one. `"memory_optimized"`:
            the largest first, each to the rank with the least so far; ranks are then numbered from
            the one with the least to the one with the most.
        sizes: List of integers, a slice: its elements.
        tables: List of integers, a slice: the index of its table.
        num_ranks: Integer.

    Returns:
        List of a list a rank: the indices of its slices, in the order in which it got them.
    """
    if strategy == "basic":
        return [list(range(rank, len(sizes), num_ranks)) for rank in range(num_ranks)]
    # Of equal sizes the later table first; of one table the earlier slice.
    order = sorted(range(len(sizes)), key=lambda i: (sizes[i], tables[i]), reverse=True)
    if strategy == "memory_balanced":
        turn = 2 * num_ranks
        return [order[rank::turn] + order[turn - 1 - rank :: turn] for rank in range(num_ranks)]
    return _deal_to_the_least(order, sizes, tables, num_ranks)


def _deal_to_the_least(order, sizes, tables, num_ranks):
    # Of equally full ranks it is the one whose list of tables is the lesser.
    ranks: list[tuple[int, list, list]] = [(0, [], []) for _ in range(num_ranks)]
    for i in order:
        size, its_tables, its_slices = ranks[0]
        full = (size + sizes[i], [*its_tables, tables[i]], [*its_slices, i])
        heapq.heapreplace(ranks, full)
    return [its_slices for _, _, its_slices in sorted(ranks)]
