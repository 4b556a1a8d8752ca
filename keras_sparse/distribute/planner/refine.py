import numpy as np

from keras_sparse.distribute.planner.table_placement import TablePlacement

# Of the changes that are made at most; a plan of thousands of tables needs some hundred.
_MOST_CHANGES = 2000
# Of the ranks with which the slowest one may exchange tables.
_NUM_PARTNERS = 4
# How often tables that all ranks have a part of are gone through.
_NUM_ROUNDS = 3
# The slowest rank against the mean.
_EVEN = 1.001


def refine(book):
    """Changes a placement as long as that makes its slowest rank faster; returns the `RankLoads`.

    A table of the slowest rank is placed anew in the best way, or exchanged for one of another
    rank. Where none of that helps, the tables that all ranks have a part of are placed anew, one by
    one. It is enough when the slowest rank is as fast as all are on average, or nearly.

    Args:
        book: `RankLoads` that fits its budget. It is changed.
    """
    for _ in range(_NUM_ROUNDS):
        for _ in range(_MOST_CHANGES):
            if _is_even(book):
                return book
            if not (_improve_slowest(book) or _exchange(book)):
                break
        has_changed = False
        for i, placement in enumerate(book.placements):
            if len(placement.slices) == book.num_ranks:
                has_changed |= _place_anew(book, i)
        if not has_changed:
            break
    return book


def _is_even(book):
    seconds = book.own + book.every_rank
    return seconds.max() <= _EVEN * seconds.mean()


def _improve_slowest(book):
    """Places the first table of the slowest rank anew for which that helps; says if one was."""
    return any(_place_anew(book, i) for _, i in book.slices_on(int(book.own.argmax())))


def _place_anew(book, i):
    """Gives table `i` its best placement, all others staying; returns whether it has changed."""
    if book.options[i].fixed_kind is not None:
        return False
    before = book.score
    kept = book.take(i)
    best, best_score = kept, before
    for placement in _placements(book, i):
        book.put(i, placement)
        if book.fits and book.is_better_than(best_score):
            best, best_score = placement, book.score
        book.take(i)
    book.put(i, best)
    return best is not kept


def _placements(book, i):
    options = book.options[i]
    yield options.by_rows
    yield options.whole
    for count in options.slice_counts:
        parts = book.find_ranks(i, options.columns_of(count))
        if parts is not None:
            yield TablePlacement.by_columns(options.table, parts)


def _exchange(book):
    """Exchanges a slice of the slowest rank for one of another, if that helps; says if it does."""
    slowest = int(book.own.argmax())
    mine = book.slices_on(slowest)
    for other in np.argsort(book.own, kind="stable")[:_NUM_PARTNERS].tolist():
        theirs = book.slices_on(other)
        # The best exchange takes half of what one rank has more than the other.
        differences = np.subtract.outer([own for own, _ in mine], [own for own, _ in theirs])
        misses = np.abs(differences - (book.own[slowest] - book.own[other]) / 2)
        for pair in np.argsort(misses, axis=None, kind="stable")[:_NUM_PARTNERS]:
            a, b = divmod(int(pair), len(theirs))
            if _try_exchange(book, (mine[a][1], slowest), (theirs[b][1], other)):
                return True
    return False


def _try_exchange(book, mine, theirs):
    """Exchanges two slices, each given by table and rank, unless that is no better."""
    moves = {mine[0]: (mine[1], theirs[1]), theirs[0]: (theirs[1], mine[1])}
    if any(target in book.placements[i].ranks for i, (_, target) in moves.items()):
        return False
    before = book.score
    kept = {i: book.take(i) for i in moves}
    for i, (source, target) in moves.items():
        parts = [
            (target if each.rank == source else each.rank, each.num_columns)
            for each in kept[i].slices
        ]
        book.put(i, TablePlacement.by_columns(book.options[i].table, parts))
    if book.fits and book.is_better_than(before):
        return True
    for i, placement in kept.items():
        book.take(i)
        book.put(i, placement)
    return False
