"""The synthetic models of NVIDIA Merlin distributed-embeddings 1.0: what their tables and dense
parts are.

Bags are summed, rows are float32. A group with two numbers as its hotness is of tables that two
inputs share, one with an id a sample and one with many.
"""

import dataclasses
import functools
import math

FLOAT_BYTES = 4
GPU_SOURCE = "the original authors', with Adagrad on A100 GPUs of 80 GB"


@dataclasses.dataclass(frozen=True)
class TableGroup:
    """Tables that are alike.

    Attributes:
        count: How many there are.
        rows, width: Of each.
        hotness: Ids a sample of each input of a table.
    """

    count: int
    rows: int
    width: int
    hotness: tuple = (1,)


@dataclasses.dataclass(frozen=True)
class SyntheticModel:
    """A model.

    Attributes:
        name: Which of `MODELS`.
        groups: `TableGroup`s.
        num_numerical: Numbers of a sample that are no ids.
        units: Of the hidden layers; one unit follows.
        gpu_ms: Milliseconds of a step by the number of GPUs, batches of 65,536: `GPU_SOURCE`.
    """

    name: str
    groups: tuple
    num_numerical: int
    units: tuple
    gpu_ms: dict

    @functools.cached_property
    def tables(self):
        """A `TableGroup` of one for each table."""
        return [
            dataclasses.replace(group, count=1) for group in self.groups for _ in range(group.count)
        ]

    @functools.cached_property
    def inputs(self):
        """For each input the place of its table and its hotness."""
        return [(i, hot) for i, table in enumerate(self.tables) for hot in table.hotness]

    @property
    def num_elements(self):
        """Floats of all tables."""
        return sum(group.count * group.rows * group.width for group in self.groups)

    @property
    def concat_width(self):
        return sum(self.tables[table].width for table, _ in self.inputs)

    def gathered_bytes(self):
        """Bytes of rows that a sample looks up, by the width of the rows."""
        found = {}
        for table, hotness in self.inputs:
            width = self.tables[table].width
            found[width] = found.get(width, 0) + hotness * width * FLOAT_BYTES
        return found

    def scaled(self, scale):
        """The model with that part of the rows of each table, at least one."""
        groups = [
            dataclasses.replace(group, rows=math.ceil(group.rows * scale)) for group in self.groups
        ]
        return dataclasses.replace(self, groups=tuple(groups))


_MODELS = [
    SyntheticModel(
        "tiny",
        (
            TableGroup(1, 10_000, 8, (1, 10)),
            TableGroup(1, 1_000_000, 16, (1, 10)),
            TableGroup(1, 25_000_000, 16, (1, 10)),
            TableGroup(1, 25_000_000, 16),
            TableGroup(16, 10, 8),
            TableGroup(10, 1_000, 8),
            TableGroup(4, 10_000, 8),
            TableGroup(2, 100_000, 16),
            TableGroup(19, 1_000_000, 16),
        ),
        num_numerical=10,
        units=(256, 128),
        gpu_ms={1: 17.6, 8: 3.6, 16: 3.2},
    ),
    SyntheticModel(
        "small",
        (
            TableGroup(5, 10_000, 16, (1, 30)),
            TableGroup(3, 4_000_000, 32, (1, 30)),
            TableGroup(1, 50_000_000, 32, (1, 30)),
            TableGroup(1, 50_000_000, 32),
            TableGroup(30, 10, 16),
            TableGroup(30, 1_000, 16),
            TableGroup(5, 10_000, 16),
            TableGroup(5, 100_000, 32),
            TableGroup(27, 4_000_000, 32),
        ),
        num_numerical=10,
        units=(512, 256, 128),
        gpu_ms={1: 57.8, 8: 14.0, 16: 11.6, 32: 7.4},
    ),
]
MODELS = {model.name: model for model in _MODELS}
