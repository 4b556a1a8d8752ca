import pytest

from oracle import Case
from oracle import check

SIZES = [(100, 8), (5, 8), (10, 8), (25, 4), (64, 16), (3, 12)]


def tables(combiner=None):
    return [(rows, width, combiner) for rows, width in SIZES]


def each_once(tables, kind):
    return [(i, kind) for i in range(len(tables))]


MIXED = ["one", "ragged", "dense", "sparse", "weighted", "column"]
COMBINERS = [None, "mean", "sqrtn", "sum", "mean", "sum"]
MIXED_TABLES = [(*size, combiner) for size, combiner in zip(SIZES, COMBINERS, strict=True)]

CASES = {
    "basic": Case(tables(), each_once(SIZES, "one"), {}),
    "mixed": Case(MIXED_TABLES, list(enumerate(MIXED)), {"strategy": "memory_balanced"}),
    "mixed_by_rows": Case(MIXED_TABLES, list(enumerate(MIXED)), {"row_slice_threshold": 1}),
    "mixed_by_columns": Case(MIXED_TABLES, list(enumerate(MIXED)), {"column_slice_threshold": 30}),
    "mixed_copied": Case(MIXED_TABLES, list(enumerate(MIXED)), {"data_parallel_threshold": 10**6}),
}


@pytest.mark.parametrize("name", CASES)
def test_trains_like_one_process(name):
    check(CASES[name], "Adagrad")
