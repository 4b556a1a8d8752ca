import dataclasses

import keras
import pytest

import keras_sparse.distribute as ksd
from keras_sparse.distribute import plan_placement
from keras_sparse.distribute import TableSpec
from oracle import check
from oracle import plain_key
from oracle_cases import Case

SIZES = [(100, 8), (5, 8), (10, 8), (25, 4), (64, 16), (3, 12)]
KINDS = ["one", "ragged", "dense", "sparse", "weighted", "column"]
COMBINERS = [None, "mean", "sqrtn", "sum", "mean", "sum"]
MIXED = [(*size, combiner) for size, combiner in zip(SIZES, COMBINERS, strict=True)]
DYNAMIC = [(None, 6, None), (40, 6, None), (None, 5, "mean"), (30, 5, "sum")]
OPTIMIZERS = ["SGD", "Adagrad", "Adam"]
# A large model, scaled down: of each number of rows, the widths of its tables. With the thresholds
# some tables are copied, some whole, some cut by columns and some by rows.
WIDTHS = {
    2: [1, 2],
    4: [1, 2, 2, 2, 2, 2, 4, 16, 16, 16, 16, 128],
    12: [2, 4, 4, 4, 4, 16, 16],
    40: [2, 2, 6, 16, 16, 48],
    100: [8, 8, 256],
    500: [4, 8, 8, 8, 16],
    1500: [12, 16, 16],
    4999: [1],
    5000: [1],
    5001: [1],
}
LARGE = [(rows, width) for rows, widths in WIDTHS.items() for width in widths]
ALL_KINDS = {
    "data_parallel_threshold": 70,
    "column_slice_threshold": 1950,
    "row_slice_threshold": 4900,
}


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


class OwnTable(keras.layers.Embedding):
    """A user's own layer, which computes what its base does."""

    def __init__(self, *args, tower="user", **kwargs):
        super().__init__(*args, **kwargs)
        self.tower = tower

    def get_config(self):
        return {**super().get_config(), "tower": self.tower}


def of_class(layer_class, **options):
    """Tables of which the layer is given this class."""
    case = one_each(SIZES, **options)
    case.inputs[1] = (1, "dense")
    return dataclasses.replace(case, layer_class=layer_class)


def outside(**options):
    """Ids in tables and outside of them."""
    return one_each([(20, 8), (5, 4), (9, 16)], "mean", "outside", **options)


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
    "own_class": of_class(OwnTable, column_slice_threshold=60, row_slice_threshold=1000),
    "keras_class": of_class(keras.layers.Embedding, data_parallel_threshold=60),
    "outside": outside(column_slice_threshold=100),
    "outside_by_rows": outside(row_slice_threshold=1),
    "dynamic": Case(DYNAMIC, [(0, "one"), (1, "dense"), (2, "weighted"), (3, "ragged")], {}),
}


# On one rank, which has all of each table whatever the options.
ONE_RANK = ["basic", "hot", "mixed", "shared", "whole_batches", "own_class", "outside", "dynamic"]
# On several ranks nearly all cases are on one number of them: cut evenly, or not.
ON_2 = ["basic", "balanced", "copied", "hot", "mixed", "shared_by_columns", "whole_batches"]
ON_2 += ["own_class", "keras_class", "outside_by_rows"]
ON_2_AND_3 = ["by_rows", "mixed_by_columns", "dynamic"]


def combinations():
    """Each case with an optimizer, on each number of ranks with another.

    Cases whose plain models are one have the same: these train once.
    """
    plain = list(dict.fromkeys(plain_key([case]) for case in CASES.values()))
    places = {name: plain.index(plain_key([case])) for name, case in CASES.items()}
    not_on_2 = [name for name in CASES if name not in ON_2]
    names = {1: ONE_RANK, 2: ON_2 + ON_2_AND_3}.get(ksd.size(), not_on_2)
    return [(name, OPTIMIZERS[(places[name] + ksd.size()) % len(OPTIMIZERS)]) for name in names]


@pytest.mark.parametrize(("name", "optimizer"), combinations())
def test_trains_like_one_process(name, optimizer):
    check(CASES[name], optimizers=[optimizer])


def test_the_large_model_has_tables_of_all_kinds():
    assert len(LARGE) == 41
    tables = [TableSpec(f"table_{i}", *size) for i, size in enumerate(LARGE)]
    kinds = [each.kind for each in plan_placement(tables, 3, **ALL_KINDS).placements]
    assert set(kinds) == {"data_parallel", "table_wise", "column_wise", "row_wise"}


def of_ranks(each):
    """Every other one: two ranks have those that three leave, and one rank has all."""
    return each if ksd.size() == 1 else each[ksd.size() % 2 :: 2]


@pytest.mark.parametrize("name", of_ranks(["shared_by_columns", "whole_batches_sliced"]))
def test_trains_like_one_process_without_a_function(name):
    check(CASES[name], in_function=False)


@pytest.mark.parametrize(
    ("wire_dtype", "whole_batch"),
    of_ranks(
        [("float16", False), ("float16", True), ("bfloat16", True), ("bfloat16", False)],
    ),
)
def test_rows_may_travel_in_half_as_many_bytes(wire_dtype, whole_batch):
    case = (whole_batches if whole_batch else mixed)(wire_dtype=wire_dtype)
    # Rows are below 0.3, and such a float is rounded by 2**-9 of it at most, or 2**-12.
    tolerance = 0.3 * 2 ** (-8 if wire_dtype == "bfloat16" else -11)
    check(case, optimizers=["SGD"], tolerance=tolerance)


@pytest.mark.skipif(ksd.size() == 1, reason="one rank has all samples")
@pytest.mark.parametrize(
    ("name", "working"),
    of_ranks(
        [
            ("mixed", slice(1, None)),
            ("mixed_by_rows", slice(1, None)),
            ("mixed_by_columns", slice(-1, None)),
            ("mixed_by_rows", slice(-1, None)),
            ("dynamic", slice(-1, None)),
            ("dynamic", slice(1, None)),
        ],
    ),
)
def test_ranks_without_samples_train_their_tables(name, working):
    check(dataclasses.replace(CASES[name], working=working))


@pytest.mark.skipif(ksd.size() < 3, reason="the same on two ranks, and long")
def test_layers_of_all_kinds_train_together_for_many_steps():
    dynamic = Case([(None, 4, "mean"), (None, 3, None)], [(0, "weighted"), (1, "one")], {}, 24)
    tables, inputs = [(30, 6, "mean"), (9, 8, "sqrtn")], [(0, "ragged"), (1, "weighted")]
    places = [
        {"strategy": "memory_balanced"},
        {"row_slice_threshold": 1},
        {"column_slice_threshold": 30},
        {"dp_input": False, "column_slice_threshold": 20},
        {"data_parallel_threshold": 100, "row_slice_threshold": 150},
    ]
    layers = [Case(tables, inputs, place, 24) for place in places]
    # A table of one column is on one rank: others have nothing of its layer.
    layers += [Case([(10, 1, "sum")], [(0, "ragged")], {}, 24) for _ in range(2)]
    check(dynamic, *layers, num_steps=30, tolerance=5e-6)
