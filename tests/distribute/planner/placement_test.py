import re

import numpy as np
import pytest

from keras_sparse.distribute import plan_placement
from keras_sparse.distribute import TableSpec
from keras_sparse.distribute.planner.memory_budget import by_rows_bytes
from keras_sparse.distribute.planner.memory_budget import ranks_that_do

GOLDEN_SIZES = [[100, 8], [5, 8], [10, 8], [25, 4], [1000, 16], [3, 12]]
GOLDEN = [
    (2, "basic", [[0, 2, 4], [1, 3, 5]]),
    (2, "memory_balanced", [[4, 1, 2], [0, 5, 3]]),
    (2, "memory_optimized", [[0, 3, 2, 1, 5], [4]]),
    (4, "basic", [[0, 4], [1, 5], [2], [3]]),
    (4, "memory_balanced", [[4], [0], [3, 5], [2, 1]]),
    (4, "memory_optimized", [[2, 1], [3, 5], [0], [4]]),
]
PLAIN = ["basic", "memory_balanced", "memory_optimized"]


def tables_of(sizes, **kwargs):
    return [TableSpec(f"t{i}", rows, width, **kwargs) for i, (rows, width) in enumerate(sizes)]


def kinds_of(plan):
    return [placement.kind for placement in plan.placements]


def columns_of(plan, table):
    """The rank, first column and width of each slice."""
    slices = plan.placements[table].slices
    return [(each.rank, each.first_column, each.num_columns) for each in slices]


@pytest.mark.parametrize(("num_ranks", "strategy", "expected"), GOLDEN)
def test_deals_tables_as_the_original_does(num_ranks, strategy, expected):
    plan = plan_placement(tables_of(GOLDEN_SIZES), num_ranks, strategy)
    assert [plan.tables_of(rank) for rank in range(num_ranks)] == expected
    assert set(kinds_of(plan)) == {"table_wise"}


@pytest.mark.parametrize("strategy", PLAIN)
@pytest.mark.parametrize(
    ("num_ranks", "widths"), [(3, [6, 5, 5]), (6, [3, 3, 3, 3, 2, 2]), (8, [2] * 8)]
)
def test_cuts_one_table_for_all_ranks(num_ranks, widths, strategy):
    plan = plan_placement(tables_of([[100, 16]]), num_ranks, strategy)
    slices = columns_of(plan, 0)
    assert [width for _, _, width in slices] == widths
    assert [first for _, first, _ in slices] == np.cumsum([0, *widths[:-1]]).tolist()
    assert sorted(rank for rank, _, _ in slices) == list(range(num_ranks))
    assert kinds_of(plan) == ["column_wise"]


def test_cuts_the_largest_until_there_is_one_for_each_rank():
    plan = plan_placement(tables_of([[10, 4], [100, 4], [30, 4]]), 6)
    # 100 x 4 four times, to its columns, and 30 x 4 once.
    assert [len(placement.slices) for placement in plan.placements] == [1, 4, 1]
    assert [plan.tables_of(rank) for rank in range(6)] == [[0], [1], [1], [1], [1], [2]]
    assert len(plan_placement(tables_of([[10, 4], [100, 4], [30, 4]]), 7).placements[2].slices) == 2


def test_a_rank_may_have_no_table():
    plan = plan_placement(tables_of([[10, 3]]), 5)
    assert [plan.tables_of(rank) for rank in range(5)] == [[0], [0], [0], [], []]
    assert "Without a table: rank 3-4." in plan.summary()


@pytest.mark.parametrize(
    ("threshold", "widths"),
    [(1600, [16]), (1599, [8, 8]), (600, [6, 5, 5]), (599, [4] * 4), (300, [3, 3, 3, 3, 2, 2])],
)
def test_cuts_as_few_slices_as_the_threshold_allows(threshold, widths):
    plan = plan_placement(tables_of([[100, 16]] * 2), 6, column_slice_threshold=threshold)
    slices = columns_of(plan, 0)
    assert [width for _, _, width in slices] == widths


def test_does_not_cut_into_more_slices_than_ranks_or_columns():
    tables = tables_of([[100, 16], [100, 2]])
    plan = plan_placement(tables, 4, column_slice_threshold=1)
    assert [len(placement.slices) for placement in plan.placements] == [4, 2]


def test_thresholds_are_looked_at_in_their_order():
    thresholds = {"data_parallel_threshold": 40, "row_slice_threshold": 40}
    plan = plan_placement(tables_of([[10, 4], [41, 1], [13, 3]]), 2, **thresholds)
    assert kinds_of(plan) == ["data_parallel", "row_wise", "data_parallel"]
    thresholds = {"row_slice_threshold": 400, "column_slice_threshold": 100}
    plan = plan_placement(tables_of([[100, 4], [50, 4], [10, 4]]), 4, **thresholds)
    assert kinds_of(plan) == ["row_wise", "column_wise", "table_wise"]
    assert plan.tables_of(0) == [1, 0]
    assert plan.tables_of(3) == [0]


@pytest.mark.parametrize("strategy", [*PLAIN, "auto"])
def test_one_rank_has_everything(strategy):
    tables = [*tables_of([[10, 4], [1000, 4]]), TableSpec("keys", None, 4)]
    thresholds = {"data_parallel_threshold": 50, "row_slice_threshold": 60}
    plan = plan_placement(tables, 1, strategy, column_slice_threshold=1, **thresholds)
    assert plan.tables_of(0) == [0, 1, 2]
    assert kinds_of(plan) == ["table_wise"] * 3


def test_merged_slices_keep_their_real_columns():
    # Even columns over the two ranks, as the original has them in `set_weights`, would be 2 and 2.
    tables = tables_of([[187, 4], [152, 4]])
    plan = plan_placement(tables, 3, "memory_optimized", column_slice_threshold=20)
    assert columns_of(plan, 1) == [(1, 0, 3), (2, 3, 1)]


def test_shared_tables_spread_by_rows_give_each_input_its_own():
    tables = tables_of([[100, 8], [90, 8]])
    plan = plan_placement(tables, 2, row_slice_threshold=1, input_table_map=[1, 0, 1])
    outputs = [[each.num_rows for each in plan.slices_of_input(i)] for i in range(3)]
    assert outputs == [[45, 45], [50, 50], [45, 45]]


def test_hotness_has_a_number_for_each_input():
    shared = TableSpec("shared", 100, 8, "sum", hotness=(1, 10))
    plan = plan_placement([shared, TableSpec("other", 10, 8, hotness=2)], 2)
    assert plan.input_table_map == [0, 0, 1]
    assert [table.hotness for table in plan.tables] == [(1, 10), (2,)]
    plan = plan_placement(tables_of([[10, 4]] * 3, hotness=3), 2, input_table_map=[2, 0, 2])
    assert [table.hotness for table in plan.tables] == [(3,), (), (3, 3)]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"tables": []}, TypeError, "`tables` must be a non-empty list of TableSpec"),
        ({"tables": ["users"]}, TypeError, r"must be TableSpec. Received: tables\[0\]='users'"),
        ({"tables": tables_of([[1, 1]]) * 2}, ValueError, r"'t0' of tables\[0\] and tables\[1\]"),
        ({"num_ranks": 0}, ValueError, "`num_ranks` must be above 0"),
        ({"strategy": "best"}, ValueError, r"`strategy` must be one of \('basic', .*'best'"),
        ({"column_slice_threshold": 0}, ValueError, "`column_slice_threshold` must be above 0"),
        ({"row_slice_threshold": 1.5}, TypeError, "`row_slice_threshold` must be an integer"),
        ({"data_parallel_threshold": -1}, ValueError, "`data_parallel_threshold` must be above 0"),
        ({"input_table_map": 0}, TypeError, "`input_table_map` must be a list with the index"),
        ({"input_table_map": [0, 2]}, ValueError, r"from 0 to 1. Received: input_table_map\[1\]=2"),
        ({"input_table_map": [True]}, TypeError, r"`input_table_map\[0\]` must be an integer"),
        ({"memory_budget": "much"}, ValueError, "such as 16GB or 64GiB.* Received: .*'much'"),
        ({"memory_budget": 0}, ValueError, "`memory_budget` must be above 0"),
        ({"cost_model": 1e9}, TypeError, "`cost_model` must be a CostModel"),
        (
            {"tables": tables_of([[9, 9]], hotness=[1, 2]), "input_table_map": [0]},
            ValueError,
            r"one for each input of the table. Received: hotness=\(1.0, 2.0\) of table 't0' with 1",
        ),
    ],
)
def test_refuses_what_is_no_plan(arguments, error, words):
    with pytest.raises(error, match=words):
        plan_placement(**{"tables": tables_of([[10, 4]] * 2), "num_ranks": 2, **arguments})


USERS = TableSpec("users", 15_000_000, 100, num_slots=1)  # 12 GB


@pytest.mark.parametrize("strategy", ["basic", "auto"])
def test_says_which_table_is_too_large_and_what_would_do(strategy):
    with pytest.raises(ValueError, match="must hold all tables") as caught:
        plan_placement([USERS], 4, strategy, memory_budget="2GB")
    assert str(caught.value) == (
        "`memory_budget` of all ranks together must hold all tables: table 'users' has 12.0 GB "
        "with its slots, more than 4 x 2.00 GB. Take 6 ranks, or a memory_budget of 3000000000, "
        "3.00 GB. Received: memory_budget=2000000000, num_ranks=4"
    )
    plan_placement([USERS], 6, "auto", memory_budget="2GB")
    plan_placement([USERS], 4, "auto", memory_budget=3_000_000_000)


def test_names_the_table_that_is_too_large_by_itself():
    tables = [TableSpec("items", 1000, 4), USERS]
    with pytest.raises(ValueError, match=r"all tables: table 'users' has 12\.0 GB with"):
        plan_placement(tables, 4, memory_budget="2GB")


def test_names_the_largest_of_many_tables():
    tables = [TableSpec(f"t{i}", 1000, 25 * (i + 1)) for i in range(3)]  # 100, 200 and 300 kB
    words = (
        "the 3 tables have 600 kB with slots (of which table 't2' has 300 kB with its slots), more "
        "than 2 x 200 kB. Take 4 ranks, or a memory_budget of 300000, 300 kB"
    )
    with pytest.raises(ValueError, match=re.escape(words)):
        plan_placement(tables, 2, "memory_balanced", memory_budget=200_000)


def test_says_what_helps_a_plan_that_does_not_fit():
    tables = [USERS, TableSpec("items", 1000, 4)]
    words = (
        "with strategy 'basic' rank 0 would have 12.0 GB, of which 12.0 GB are of table 'users'. "
        "Take strategy='auto'.* row_slice_threshold by rows. Received: memory_budget=8000000000"
    )
    with pytest.raises(ValueError, match=words):
        plan_placement(tables, 2, memory_budget="8GB")
    plan = plan_placement(tables, 2, memory_budget="8GB", row_slice_threshold=10**6)
    assert plan.rank_bytes.max() <= 8 * 10**9
    assert ", at most 8.00 GB a rank:" in str(plan)


def test_counts_what_dynamic_tables_take_on_each_rank():
    tables = [TableSpec("keys", None, 4, first_tier_bytes=10**6), TableSpec("t", 1000, 4)]
    words = (
        "the 2 tables have 2.02 MB with slots (of which table 'keys' has 2.00 MB with its slots), "
        "more than 2 x 1.01 MB. Take 1000 ranks, or a memory_budget of 1008000"
    )
    with pytest.raises(ValueError, match=re.escape(words)):
        plan_placement(tables, 2, memory_budget=1_000_016)
    with pytest.raises(ValueError, match="Take a memory_budget of 1008000"):
        plan_placement(tables, 2, memory_budget=10**6)  # of any number of ranks


def test_one_rank_must_hold_all():
    with pytest.raises(ValueError, match="Take 2 ranks, or a memory_budget of 12000000000"):
        plan_placement([USERS], 1, "auto", memory_budget="11GB")


@pytest.mark.parametrize("budget", [4, 5, 100, 399, 400])
def test_finds_the_fewest_ranks(budget):
    tables = [TableSpec("a", 80, 1), TableSpec("b", 20, 1)]
    enough = ranks_that_do(tables, budget)
    if enough is None:
        assert budget < 8
    else:
        assert by_rows_bytes(tables, enough) <= budget
        assert enough == 1 or by_rows_bytes(tables, enough - 1) > budget
