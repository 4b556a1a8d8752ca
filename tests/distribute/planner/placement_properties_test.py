"""What holds for every plan: all of each table is somewhere, once, and ranks are balanced."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from keras_sparse.distribute import Plan
from keras_sparse.distribute import plan_placement
from keras_sparse.distribute import TableSpec
from keras_sparse.distribute.planner.column_slices import num_slices_below
from keras_sparse.distribute.planner.column_slices import num_slices_for_all_ranks

ANY = settings(deadline=None, derandomize=True, database=None, max_examples=150)
THRESHOLDS = st.none() | st.integers(1, 400)


@st.composite
def arguments(draw):
    sizes = st.tuples(st.none() | st.integers(1, 60), st.integers(1, 12))
    sizes = draw(st.lists(sizes, min_size=1, max_size=9))
    tables = [
        TableSpec(
            f"t{i}",
            rows,
            width,
            combiner=draw(st.sampled_from([None, "sum", "mean"])),
            hotness=draw(st.sampled_from([0, 0.5, 1, 7])),
            num_slots=draw(st.integers(0, 2)),
            trainable=draw(st.booleans()),
        )
        for i, (rows, width) in enumerate(sizes)
    ]
    inputs = st.lists(st.integers(0, len(tables) - 1), max_size=12)
    return {
        "tables": tables,
        "num_ranks": draw(st.integers(1, 9)),
        "strategy": draw(st.sampled_from(["basic", "memory_balanced", "memory_optimized", "auto"])),
        "column_slice_threshold": draw(THRESHOLDS),
        "row_slice_threshold": draw(THRESHOLDS),
        "data_parallel_threshold": draw(THRESHOLDS),
        "input_table_map": draw(st.none() | inputs),
    }


def holders(plan, table):
    """How many ranks have each element of a static table: an array of shape `(rows, width)`."""
    spec, placement = plan.tables[table], plan.placements[table]
    counts = np.zeros((spec.rows, spec.width), int)
    for each in placement.slices:
        columns = slice(each.first_column, each.first_column + each.num_columns)
        rows = np.arange(spec.rows)
        if placement.kind == "row_wise":
            rows = rows[rows % plan.num_ranks == each.rank]
        assert len(rows) == each.num_rows
        counts[rows, columns] += 1
    return counts


def check_every_element_is_on_one_rank_or_copied_to_all(plan):
    for i, (table, placement) in enumerate(zip(plan.tables, plan.placements, strict=True)):
        assert len(set(placement.ranks)) == len(placement.slices)
        assert all(i in plan.tables_of(rank) for rank in placement.ranks)
        if table.is_dynamic:
            assert placement.kind == ("row_wise" if plan.num_ranks > 1 else "table_wise")
            assert [each.num_rows for each in placement.slices] == [None] * plan.num_ranks
        else:
            copies = plan.num_ranks if placement.kind == "data_parallel" else 1
            assert (holders(plan, i) == copies).all()
    named = sum(len(plan.tables_of(rank)) for rank in range(plan.num_ranks))
    assert named == sum(len(placement.slices) for placement in plan.placements)


def check_thresholds_hold(plan, arguments):
    column, row, copy = (
        arguments[f"{name}_threshold"] for name in ("column_slice", "row_slice", "data_parallel")
    )
    for table, placement in zip(plan.tables, plan.placements, strict=True):
        if table.is_dynamic or plan.num_ranks == 1:
            continue
        if copy and table.num_elements <= copy:
            assert placement.kind == "data_parallel"
        elif row and table.num_elements >= row:
            assert placement.kind == "row_wise"
        elif arguments["strategy"] != "auto":
            assert placement.kind in ("table_wise", "column_wise")
            if column and table.num_elements <= column:
                assert placement.kind == "table_wise"


def check_every_input_gets_all_columns_in_order(plan):
    for i, table in enumerate(plan.input_table_map):
        slices = plan.slices_of_input(i)
        assert slices == plan.slices_of_input(plan.input_table_map.index(table))
        if plan.placements[table].kind in ("row_wise", "data_parallel"):
            assert {each.num_columns for each in slices} == {plan.tables[table].width}
        else:
            ends = np.cumsum([each.num_columns for each in slices]).tolist()
            assert [each.first_column for each in slices] == [0, *ends[:-1]]
            assert ends[-1] == plan.tables[table].width


def check_bytes_are_those_of_the_slices(plan):
    total = sum(
        (1 + table.num_slots * table.trainable)
        * 4
        * table.num_elements
        * (plan.num_ranks if placement.kind == "data_parallel" else 1)
        for table, placement in zip(plan.tables, plan.placements, strict=True)
        if not table.is_dynamic
    )
    assert plan.rank_bytes.sum() == total


@ANY
@given(arguments())
def test_every_plan_is_of_all_tables_under_the_thresholds_and_comes_back_from_json(arguments):
    plan = plan_placement(**arguments)
    check_every_element_is_on_one_rank_or_copied_to_all(plan)
    check_thresholds_hold(plan, arguments)
    check_every_input_gets_all_columns_in_order(plan)
    check_bytes_are_those_of_the_slices(plan)
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert str(again) == str(plan)
    assert plan_placement(**arguments) == plan


def elements_of_ranks(plan):
    loads = np.zeros(plan.num_ranks, int)
    for table, placement in zip(plan.tables, plan.placements, strict=True):
        for each in placement.slices:
            loads[each.rank] += table.rows * each.num_columns
    return loads


@st.composite
def static_tables(draw, most=12):
    sizes = st.tuples(st.integers(1, 60), st.integers(1, 12))
    sizes = draw(st.lists(sizes, min_size=1, max_size=most))
    return [TableSpec(f"t{i}", rows, width) for i, (rows, width) in enumerate(sizes)]


@ANY
@given(static_tables(), st.integers(1, 6), THRESHOLDS)
def test_memory_balanced_differs_by_one_slice_at_most(tables, num_ranks, threshold):
    plan = plan_placement(tables, num_ranks, "memory_balanced", threshold)
    loads = elements_of_ranks(plan)
    counts = num_slices_for_all_ranks(tables, num_ranks)
    if threshold is not None:
        counts = [num_slices_below(table, threshold, num_ranks) for table in tables]
    largest = max(
        table.rows * -(-table.width // count) for table, count in zip(tables, counts, strict=True)
    )
    assert loads.max() - loads.min() <= largest


@ANY
@given(static_tables(), st.integers(1, 6))
def test_memory_balanced_gives_each_rank_as_many(tables, num_ranks):
    plan = plan_placement(tables, num_ranks, "memory_balanced", column_slice_threshold=10**6)
    counts = [len(plan.tables_of(rank)) for rank in range(num_ranks)]
    assert max(counts) - min(counts) <= 1


@ANY
@given(static_tables(), st.integers(1, 6))
def test_memory_optimized_is_within_a_table_of_the_mean(tables, num_ranks):
    plan = plan_placement(tables, num_ranks, "memory_optimized", column_slice_threshold=10**6)
    loads = elements_of_ranks(plan)
    largest = max(table.num_elements for table in tables)
    assert loads.max() <= loads.mean() + (1 - 1 / num_ranks) * largest
    assert loads.tolist() == sorted(loads)


@settings(ANY, max_examples=60)
@given(static_tables(most=6), st.integers(1, 3))
def test_memory_optimized_is_within_four_thirds_of_the_best(tables, num_ranks):
    plan = plan_placement(tables, num_ranks, "memory_optimized", column_slice_threshold=10**6)
    best = min(
        max(
            sum(table.num_elements for table, rank in zip(tables, ranks, strict=True) if rank == r)
            for r in range(num_ranks)
        )
        for ranks in itertools.product(range(num_ranks), repeat=len(tables))
    )
    assert elements_of_ranks(plan).max() <= (4 / 3 - 1 / (3 * num_ranks)) * best + 1e-9
