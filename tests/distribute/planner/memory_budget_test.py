import re

import pytest

from keras_sparse.distribute import plan_placement
from keras_sparse.distribute import TableSpec
from keras_sparse.distribute.planner.memory_budget import by_rows_bytes
from keras_sparse.distribute.planner.memory_budget import ranks_that_do

USERS = TableSpec("users", 15_000_000, 100, num_slots=1)  # 12 GB


@pytest.mark.parametrize("strategy", ["basic", "auto"])
def test_says_which_table_is_too_large_and_what_would_do(strategy):
    with pytest.raises(ValueError, match="must hold all tables") as caught:
        plan_placement([USERS], 4, strategy, memory_budget="2GB")
    assert str(caught.value) == (
        "`memory_budget` of all ranks must hold all tables: table 'users' has 12.0 GB with its "
        "slots, more than 4 x 2.00 GB. Take 6 ranks, or a memory_budget of 3000000000, 3.00 GB. "
        "Received: memory_budget=2000000000, num_ranks=4"
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
