"""A model with several layers over ranks, in one function."""

import keras_sparse.distribute as ksd
from oracle import check
from oracle_cases import Case

BATCH_SIZE = 24
TABLES = [(30, 6, "mean"), (20, 4, "sum"), (9, 8, "sqrtn")]
INPUTS = [(0, "ragged"), (1, "dense"), (2, "weighted"), (0, "column")]


def layer(tables=TABLES, inputs=INPUTS, **options):
    return Case(tables, inputs, options, BATCH_SIZE)


def test_layers_of_all_kinds_train_together_for_many_steps():
    dynamic = layer([(None, 4, "mean"), (None, 3, None)], [(0, "weighted"), (1, "one")])
    layers = [
        layer(strategy="memory_balanced"),
        layer(row_slice_threshold=1),
        dynamic,
        layer(column_slice_threshold=30),
        layer(dp_input=False, column_slice_threshold=20),
        layer(data_parallel_threshold=100, row_slice_threshold=150),
    ]
    check(*layers, num_steps=35, tolerance=5e-6)


def test_layers_of_which_some_ranks_have_nothing_train_together():
    # A table of one column is on one rank.
    layers = [layer([(10 + i, 1, "sum")], [(0, "ragged")]) for i in range(ksd.size() + 1)]
    check(*layers, num_steps=30, tolerance=5e-6)
