"""The tables of the synthetic models of NVIDIA Merlin distributed-embeddings, by size.

A pair of numbers as hotness is a table that two inputs share.
"""

from keras_sparse.distribute import TableSpec

# Number of tables, rows, width, hotness.
MODELS = {
    "tiny": [
        (1, 10_000, 8, (1, 10)),
        (1, 1_000_000, 16, (1, 10)),
        (1, 25_000_000, 16, (1, 10)),
        (1, 25_000_000, 16, 1),
        (16, 10, 8, 1),
        (10, 1000, 8, 1),
        (4, 10_000, 8, 1),
        (2, 100_000, 16, 1),
        (19, 1_000_000, 16, 1),
    ],
    "medium": [
        (20, 100_000, 64, (1, 50)),
        (5, 10_000_000, 64, (1, 50)),
        (1, 100_000_000, 128, (1, 50)),
        (1, 100_000_000, 128, 1),
        (80, 10, 32, 1),
        (60, 1000, 32, 1),
        (80, 100_000, 64, 1),
        (24, 200_000, 64, 1),
        (40, 10_000_000, 64, 1),
    ],
    "large": [
        (40, 100_000, 64, (1, 100)),
        (16, 15_000_000, 64, (1, 100)),
        (1, 200_000_000, 128, (1, 100)),
        (1, 200_000_000, 128, 1),
        (100, 10, 32, 1),
        (100, 10_000, 32, 1),
        (160, 100_000, 64, 1),
        (50, 500_000, 64, 1),
        (144, 15_000_000, 64, 1),
    ],
    "colossal": [
        (100, 100_000, 128, (1, 300)),
        (50, 40_000_000, 256, (1, 300)),
        (1, 2_000_000_000, 256, (1, 300)),
        (1, 1_000_000_000, 256, 1),
        (100, 10, 32, 1),
        (400, 10_000, 128, 1),
        (100, 100_000, 128, 1),
        (800, 1_000_000, 128, 1),
        (450, 40_000_000, 256, 1),
    ],
}


def synthetic_tables(model, num_slots=1):
    """Returns a list of `TableSpec`, all with combiner `"sum"`."""
    return [
        TableSpec(f"{'abcdefghi'[group]}{i}", rows, width, "sum", hotness, num_slots)
        for group, (count, rows, width, hotness) in enumerate(MODELS[model])
        for i in range(count)
    ]
