import types

import pytest

from keras_sparse.distribute import TablePlacement
from keras_sparse.distribute import TableSpec
from keras_sparse.distribute.planner.rank_loads import RankLoads
from keras_sparse.distribute.planner.refine import refine

TABLE = TableSpec("t", 10, 4)


def options_of(seconds, its_bytes=1, row_seconds=100.0, is_free=False):
    """Stands in for `PlacementCosts`: a table that takes `seconds` on one rank."""
    return types.SimpleNamespace(
        table=TABLE,
        fixed_kind=None if is_free else "table_wise",
        of_slice=lambda num_columns: (0.0, seconds, its_bytes),
        slice_counts=[1],
        columns_of=lambda num_slices: [4],
        by_rows=TablePlacement.by_rows(TABLE, 2),
        whole=TablePlacement.whole(TABLE, 2),
        row_seconds=row_seconds,
        row_bytes=its_bytes,
        copy_seconds=100.0,
        copy_bytes=its_bytes,
    )


def book_of(options, ranks, memory_budget=None):
    placements = [TablePlacement.by_columns(TABLE, [(rank, 4)]) for rank in ranks]
    return RankLoads.of(placements, options, 2, memory_budget)


def test_exchanges_what_cannot_be_moved():
    options = [options_of(seconds) for seconds in (3.0, 2.0, 2.0, 3.0, 2.0)]
    book = refine(book_of(options, [0, 0, 0, 1, 1]))
    assert book.own.tolist() == [6, 6]
    assert [placement.kind for placement in book.placements] == ["table_wise"] * 5


@pytest.mark.parametrize(("budget", "own"), [(20, [6, 6]), (19, [7, 5])])
def test_exchanges_within_the_budget(budget, own):
    # The exchange of 3 for 2 seconds brings the second rank to 20 bytes.
    sizes = [(3.0, 10), (2.0, 1), (2.0, 1), (3.0, 10), (2.0, 1)]
    options = [options_of(seconds, its_bytes) for seconds, its_bytes in sizes]
    book = refine(book_of(options, [0, 0, 0, 1, 1], budget))
    assert book.own.tolist() == own
    assert book.bytes.max() <= budget


def test_moves_what_helps_the_slowest_rank():
    options = [options_of(3.0), options_of(2.0, is_free=True), options_of(1.0)]
    book = refine(book_of(options, [0, 0, 1]))
    assert book.own.tolist() == [3, 3]


def test_takes_from_all_ranks_what_one_has_time_for():
    options = [options_of(5.0), options_of(3.0, row_seconds=2.0, is_free=True)]
    book = book_of(options, [0, 1])
    book.take(1)
    book.put(1, options[1].by_rows)
    assert book.score[0] == 7
    refine(book)
    assert book.score[0] == 5
    assert book.placements[1].ranks == (1,)
