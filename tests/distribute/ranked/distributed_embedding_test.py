import pytest

from oracle import Case
from oracle import check

# The scaled-down sizes of a large model, from tables of a few elements on.
LARGE = [(2, 8), (3, 8), (7, 4), (10, 8), (22, 4), (40, 8), (63, 16), (100, 8), (250, 12), (500, 8)]
SIZES = [(100, 8), (5, 8), (10, 8), (25, 4), (64, 16), (3, 12)]
KINDS = ["one", "ragged", "dense", "sparse", "weighted", "column"]
COMBINERS = [None, "mean", "sqrtn", "sum", "mean", "sum"]
MIXED = [(*size, combiner) for size, combiner in zip(SIZES, COMBINERS, strict=True)]
DYNAMIC = [(None, 6, None), (40, 6, None), (None, 5, "mean"), (30, 5, "sum")]


def one_each(sizes, combiner=None, kind="one", **options):
    """Tables of these sizes, each with an input of its own."""
    tables = [(rows, width, combiner) for rows, width in sizes]
    return Case(tables, [(i, kind) for i in range(len(sizes))], options)


def mixed(**options):
    return Case(MIXED, list(enumerate(KINDS)), options)


def shared(**options):
    """Tables with several inputs: of few ids and of many, in any order."""
    inputs = [(1, "ragged"), (0, "one"), (1, "weighted"), (2, "ragged"), (0, "dense")]
    inputs += [(2, "ragged"), (1, "dense"), (2, "sparse"), (3, "column")]
    return Case([(30, 8, None), (20, 9, "mean"), (12, 16, "sum"), (9, 4, "sqrtn")], inputs, options)


def whole_batches(**options):
    """Each rank passes all samples of its own inputs."""
    inputs = [*enumerate(["one", "ragged", "dense", "sparse", "weighted", "column"]), (2, "ragged")]
    return Case(MIXED, inputs, {"dp_input": False, **options}, batch_size=24)


ALL_KINDS = {
    "data_parallel_threshold": 80,
    "column_slice_threshold": 500,
    "row_slice_threshold": 2000,
}
CASES = {
    "basic": one_each(SIZES),
    "balanced": one_each(SIZES, strategy="memory_balanced"),
    "optimized": one_each(SIZES, strategy="memory_optimized"),
    "auto": one_each(SIZES, strategy="auto"),
    "one_table": one_each([(50, 8)]),
    "sliced": one_each([(100, 8), (5, 8), (10, 8), (25, 4)], column_slice_threshold=45),
    "by_rows": one_each(SIZES, row_slice_threshold=1),
    "copied": one_each(SIZES, data_parallel_threshold=10**6),
    "all_kinds": one_each(LARGE, **ALL_KINDS),
    "hot": one_each(SIZES, "sum", "ragged"),
    "hot_by_rows": one_each(SIZES, "mean", "ragged", row_slice_threshold=1),
    "hot_by_columns": one_each(SIZES, "sqrtn", "dense", column_slice_threshold=30),
    "mixed": mixed(strategy="memory_balanced"),
    "mixed_by_rows": mixed(row_slice_threshold=1),
    "mixed_by_columns": mixed(column_slice_threshold=30),
    "shared": shared(),
    "shared_by_rows": shared(row_slice_threshold=1),
    "shared_by_columns": shared(column_slice_threshold=20, strategy="memory_optimized"),
    "whole_batches": whole_batches(),
    "whole_batches_sliced": whole_batches(column_slice_threshold=30, strategy="memory_balanced"),
    "dynamic": Case(DYNAMIC, [(0, "one"), (1, "dense"), (2, "weighted"), (3, "ragged")], {}),
}


@pytest.mark.parametrize("name", CASES)
def test_trains_like_one_process(name):
    check(CASES[name], "Adagrad")


@pytest.mark.parametrize("wire_dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("whole_batch", [False, True])
def test_rows_may_travel_in_half_as_many_bytes(wire_dtype, whole_batch):
    case = (whole_batches if whole_batch else mixed)(wire_dtype=wire_dtype)
    # Rows are below 0.3, and such a float is rounded by 2**-9 of it at most, or 2**-12.
    check(case, "SGD", tolerance=0.3 * 2 ** (-8 if wire_dtype == "bfloat16" else -11))


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("name", ["mixed", "shared_by_columns", "dynamic"])
def test_any_optimizer_trains_like_one_process(name, optimizer):
    check(CASES[name], optimizer)
