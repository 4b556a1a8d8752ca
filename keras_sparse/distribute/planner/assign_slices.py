import heapq


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
