import functools
import json

import numpy as np

from keras_sparse.distribute.planner.cost_model import CostModel
from keras_sparse.distribute.planner.memory_budget import bytes_of_ranks
from keras_sparse.distribute.planner.plan_text import plan_text
from keras_sparse.distribute.planner.table_placement import TablePlacement
from keras_sparse.distribute.planner.table_spec import TableSpec
from keras_sparse.utils.plotting import axes_or_new

_FORMAT = 1


class Plan:
    """Assigns tables, or parts of tables, to ranks. `plan_placement` creates it.

    Attributes:
        tables: List of `TableSpec`. The hotness of each is a tuple with one number per input.
        placements: List of `TablePlacement`, one per table, with its kind and slices.
        rank_tables: List of lists: the indices of the tables of each rank.
        num_ranks: Integer. Number of ranks.
        strategy: String. The strategy that `plan_placement` was called with.
        input_table_map: List of integers: the index of the table of each input.
        memory_budget: Integer, bytes per rank, or `None`.
        cost_model: `CostModel`.

    Args:
        tables: List of `TableSpec`. The hotness of each is a tuple with one number per input.
        placements: List of `TablePlacement`, one per table, with its kind and slices.
        rank_tables: List of lists: the indices of the tables of each rank.
        num_ranks: Integer. Number of ranks.
        strategy: String. The strategy that `plan_placement` was called with.
        input_table_map: List of integers: the index of the table of each input.
        memory_budget: Integer, bytes per rank. Defaults to `None`: no limit.
        cost_model: `CostModel`. Defaults to `None`: `CostModel()`.

    Raises:
        ValueError: The placements do not cover each table exactly once, or `rank_tables` does not
            match them.

    Example:
    >>> from keras_sparse.distribute import plan_placement, TableSpec
    >>> tables = [TableSpec("users", 1000, 16), TableSpec("items", 500, 8)]
    >>> plan = plan_placement(tables, num_ranks=2)
    >>> plan.tables_of(0), plan.tables_of(1)
    ([0], [1])
    >>> plan.rank_bytes
    array([64000, 16000])
    >>> keras_sparse.distribute.Plan.from_config(plan.get_config()).rank_tables
    [[0], [1]]
    """

    def __init__(
        self,
        tables,
        placements,
        rank_tables,
        num_ranks,
        strategy,
        input_table_map,
        memory_budget=None,
        cost_model=None,
    ):
        self.tables = list(tables)
        self.placements = list(placements)
        self.rank_tables = [list(each) for each in rank_tables]
        self.num_ranks = num_ranks
        self.strategy = strategy
        self.input_table_map = list(input_table_map)
        self.memory_budget = memory_budget
        self.cost_model = CostModel() if cost_model is None else cost_model
        self._check()

    def tables_of(self, rank):
        """Returns the indices of the tables that a rank holds, at least in part.

        Tables with columns on the rank come first, in the order of assignment, then tables sharded
        by rows, then replicated tables.

        Args:
            rank: Integer.

        Returns:
            List of integers.
        """
        return list(self.rank_tables[self._check_rank(rank)])

    def slice_of(self, table, rank):
        """Returns the slice of a table that a rank holds.

        Args:
            table: Integer. Index of the table.
            rank: Integer.

        Returns:
            `TableSlice`, or `None` if the rank holds no part of the table.
        """
        self._check_rank(rank)
        return next((each for each in self.placements[table].slices if each.rank == rank), None)

    def slices_of_input(self, index):
        """Returns the slices that the output of an input is made of.

        The output of a table sharded by columns is its slices side by side, in the order of
        columns.

        Args:
            index: Integer. Index of the input.

        Returns:
            Tuple of `TableSlice`.
        """
        return self.placements[self.input_table_map[index]].slices

    @functools.cached_property
    def rank_bytes(self):
        """Bytes of rows and slots on each rank: int64 array of shape `(num_ranks,)`.

        A dynamic table counts with its `first_tier_bytes`, if given.
        """
        return bytes_of_ranks(self.tables, self.placements, self.num_ranks)

    @functools.cached_property
    def rank_seconds(self):
        """Predicted seconds of a step on each rank.

        float64 array of shape `(num_ranks,)`, computed by the cost model.
        """
        return self.cost_model.rank_seconds(self.tables, self.placements, self.num_ranks)

    @property
    def step_seconds(self):
        """Float. Predicted seconds of the slowest rank, which all others wait for."""
        return float(self.rank_seconds.max())

    def summary(self):
        """Returns the plan as a text table with a line per table and a line per rank.

        Equal tables share a line.
        """
        return plan_text(self)

    def print(self):
        """Prints `summary()`."""
        print(self)

    def plot(self, ax=None):
        """Draws the bytes of each rank as bars, colored by kind, and its load as points.

        Args:
            ax: Axes of matplotlib. Defaults to `None`: the axes of a new figure.

        Returns:
            The axes.

        Raises:
            ImportError: matplotlib is not installed.
            TypeError: `ax` is not an axes object.
        """
        return draw_plan(self, ax)

    def get_config(self):
        """Returns the plan as a JSON-serializable dict."""
        return {
            "format": _FORMAT,
            "tables": [table.get_config() for table in self.tables],
            "placements": [placement.get_config() for placement in self.placements],
            "rank_tables": self.rank_tables,
            "num_ranks": self.num_ranks,
            "strategy": self.strategy,
            "input_table_map": self.input_table_map,
            "memory_budget": self.memory_budget,
            "cost_model": self.cost_model.get_config(),
        }

    @classmethod
    def from_config(cls, config):
        """Creates the plan that `get_config` describes, and checks it.

        Raises:
            ValueError: The config has another format, or the plan does not cover each table exactly
                once.
        """
        if not isinstance(config, dict) or config.get("format") != _FORMAT:
            found = config.get("format") if isinstance(config, dict) else config
            raise ValueError(
                f"A saved plan must have format {_FORMAT}. Create the plan again. Received: "
                f"format={found!r}"
            )
        arguments = {name: value for name, value in config.items() if name != "format"}
        arguments["tables"] = [TableSpec.from_config(each) for each in config["tables"]]
        arguments["placements"] = [
            TablePlacement.from_config(each) for each in config["placements"]
        ]
        arguments["cost_model"] = CostModel.from_config(config["cost_model"])
        return cls(**arguments)

    def to_json(self):
        """Returns the plan as a JSON string, which `from_json` reads."""
        return json.dumps(self.get_config(), indent=1)

    @classmethod
    def from_json(cls, text):
        """Creates the plan of a `to_json` string, and checks it.

        Raises:
            ValueError: The text is not a plan, or the plan does not cover each table exactly once.
        """
        try:
            return cls.from_config(json.loads(text))
        except (KeyError, TypeError, IndexError, json.JSONDecodeError) as error:
            raise ValueError(
                "A saved plan must be text that `to_json` wrote. Create the plan again. "
                f"Received: {error!r}"
            ) from error

    def __eq__(self, other):
        return isinstance(other, Plan) and self.get_config() == other.get_config()

    def __str__(self):
        return self.summary()

    def _check_rank(self, rank):
        if not 0 <= rank < self.num_ranks:
            raise ValueError(f"`rank` must be in [0, {self.num_ranks}). Received: rank={rank}")
        return rank

    def _check(self):
        if len(self.placements) != len(self.tables):
            raise ValueError(
                "A plan must have one placement for each table. Received: "
                f"{len(self.placements)} placements of {len(self.tables)} tables"
            )
        found: list[set[int]] = [set() for _ in range(self.num_ranks)]
        for i, (table, placement) in enumerate(zip(self.tables, self.placements, strict=True)):
            placement.check(table, self.num_ranks)
            for rank in placement.ranks:
                found[rank].add(i)
        named = [sorted(each) for each in self.rank_tables]
        if named != [sorted(each) for each in found]:
            raise ValueError(
                "`rank_tables` must list each table once for every rank with a slice of it. "
                f"Received: rank_tables={self.rank_tables}"
            )
        for i, table in enumerate(self.input_table_map):
            if not 0 <= table < len(self.tables):
                raise ValueError(
                    "`input_table_map` must hold indices of tables from 0 to "
                    f"{len(self.tables) - 1}. Received: input_table_map[{i}]={table}"
                )


_COLORS = {
    "table_wise": "#00796b",
    "column_wise": "#4db6ac",
    "row_wise": "#90a4ae",
    "data_parallel": "#cfd8dc",
}
_LOAD_COLOR = "#d0743c"
_GIGA = 10**9


def draw_plan(plan, ax=None):
    """Draws the chart of `Plan.plot` and returns its axes."""
    ax = axes_or_new(ax)
    ranks = np.arange(plan.num_ranks)
    unit, scale = _unit(plan)
    below = np.zeros(plan.num_ranks)
    for kind, of_ranks in _bytes_by_kind(plan).items():
        if of_ranks.any():
            ax.bar(ranks, of_ranks / scale, bottom=below, color=_COLORS[kind], label=kind)
            below += of_ranks / scale
    if plan.memory_budget is not None:
        budget = plan.memory_budget / scale
        ax.axhline(budget, color="0.3", linestyle="--", linewidth=1, label="memory_budget")
    ax.set(xlabel="rank", ylabel=f"rows and slots, {unit}")
    ax.xaxis.get_major_locator().set_params(integer=True)
    load_ax = ax.twinx()
    load_ax.plot(ranks, plan.rank_seconds * 1e3, "o", color=_LOAD_COLOR, label="load")
    load_ax.set_ylabel("predicted step, ms", color=_LOAD_COLOR)
    load_ax.set_ylim(0, plan.step_seconds * 1e3 * 1.1 or 1)
    ax.set_ylim(0, ax.get_ylim()[1] * 1.1)
    _legend(ax, load_ax)
    return ax


def _bytes_by_kind(plan):
    totals = {kind: np.zeros(plan.num_ranks) for kind in _COLORS}
    for table, placement in zip(plan.tables, plan.placements, strict=True):
        for each in placement.slices:
            part = table.bytes_of(each.num_rows, each.num_columns)
            totals[placement.kind][each.rank] += part
    return totals


def _unit(plan):
    most = max(int(plan.rank_bytes.max()), plan.memory_budget or 0)
    return ("GB", _GIGA) if most >= _GIGA else ("MB", 10**6)


def _legend(ax, load_ax):
    handles = [*ax.containers, *ax.lines, *load_ax.lines]
    place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 3, "frameon": False}
    ax.legend(handles=handles, **place)
