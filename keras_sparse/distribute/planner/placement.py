import dataclasses

from keras_sparse.distribute.planner.auto_placement import auto_placement
from keras_sparse.distribute.planner.auto_placement import PLAIN_STRATEGIES
from keras_sparse.distribute.planner.column_slices import num_slices_below
from keras_sparse.distribute.planner.cost_model import CostModel
from keras_sparse.distribute.planner.memory_budget import check_budget
from keras_sparse.distribute.planner.memory_budget import refuse_impossible
from keras_sparse.distribute.planner.plan import Plan
from keras_sparse.distribute.planner.table_spec import TableSpec
from keras_sparse.distribute.planner.threshold_placement import place_by_threshold
from keras_sparse.utils import checks
from keras_sparse.utils.byte_sizes import parse_bytes

STRATEGIES = (*PLAIN_STRATEGIES, "auto")
# More take the planner longer than a second.
_MOST_RANKS = 2**16


def plan_placement(
    tables,
    num_ranks,
    strategy="basic",
    column_slice_threshold=None,
    row_slice_threshold=None,
    data_parallel_threshold=None,
    input_table_map=None,
    memory_budget=None,
    cost_model=None,
):
    """Plans which rank holds which part of each table.

    The thresholds apply first, table by table, and count elements (`rows * width`). A table with at
    most `data_parallel_threshold` elements is replicated on all ranks. Of the other tables, one
    with at least `row_slice_threshold` elements is sharded by rows over all ranks: rank `r` holds
    the rows with `key % num_ranks == r`. `strategy` places the remaining tables, whole or cut by
    columns.

    Thresholds and the first three strategies are those of NVIDIA Merlin distributed-embeddings 1.0.
    Unlike there, a table can be cut into any number of slices, and a rank may hold no slice.

    A dynamic table has no size and is always sharded by rows over several ranks. A single rank
    holds all of every table.

    Args:
        tables: List of `TableSpec`, or of dicts of their arguments.
        num_ranks: Integer, at most 65536. Number of ranks.
        strategy: `"basic"`, `"memory_balanced"`, `"memory_optimized"` or `"auto"`. `"basic"` gives
            slices to the ranks in turn. `"memory_balanced"` gives the largest first, in turn
            forwards and backwards, so that ranks have about as many slices. `"memory_optimized"`
            gives the largest first, each to the rank with the fewest elements. `"auto"` searches
            for the plan whose slowest rank is predicted to be fastest within `memory_budget`, and
            chooses the kind of each table that no threshold decides; by `cost_model`, it is never
            slower than the other three strategies that fit. Defaults to `"basic"`.
        column_slice_threshold: Integer, in elements (`rows * width`). A larger table is cut by
            columns into the fewest slices that do not exceed it, but at most one per rank and per
            column. Slice widths differ by at most one column, and slices of a table on the same
            rank are merged. Defaults to `None`: if fewer tables than ranks remain, the largest
            slices are cut until every rank has one or nothing can be cut; `"auto"` chooses the
            cuts.
        row_slice_threshold: Integer, in elements (`rows * width`). A table with at least as many
            elements is sharded by rows over all ranks. Defaults to `None`: only `"auto"` shards
            static tables by rows.
        data_parallel_threshold: Integer, in elements (`rows * width`). A table with at most as many
            elements is replicated on all ranks. Defaults to `None`: only `"auto"` replicates
            tables.
        input_table_map: List of integers. Input `i` looks up table `input_table_map[i]`. Defaults
            to `None`: each table has one input, or one for each number in its `hotness`, in the
            order of tables.
        memory_budget: Integer, or string such as `"16GB"` or `"16GiB"`. Largest number of bytes of
            rows and slots on one rank. Defaults to `None`: no limit.
        cost_model: `CostModel`. Speeds of memory and network, and the batch size of a rank.
            Defaults to `None`: `CostModel()`.

    Returns:
        `Plan`, the same on every rank for the same arguments.

    Raises:
        TypeError: An argument has a wrong type.
        ValueError: An argument is out of its range, or a rank would exceed `memory_budget`. The
            message names the table that is too large and a remedy.

    Example:
    >>> from keras_sparse.distribute import plan_placement, TableSpec
    >>> tables = [
    ...     TableSpec("users", 1_000_000, 32, "sum", hotness=20, num_slots=1),
    ...     TableSpec("items", 200_000, 32, "sum", num_slots=1),
    ...     TableSpec("countries", 200, 8, num_slots=1),
    ... ]
    >>> plan = plan_placement(
    ...     tables, num_ranks=4, row_slice_threshold=10**7, data_parallel_threshold=10**4
    ... )
    >>> [placement.kind for placement in plan.placements]
    ['row_wise', 'column_wise', 'data_parallel']
    >>> [(each.rank, each.first_column, each.num_columns) for each in plan.slices_of_input(1)]
    [(0, 0, 8), (1, 8, 8), (2, 16, 8), (3, 24, 8)]
    """
    tables = _check_tables(tables)
    tables, input_table_map = _with_inputs(tables, input_table_map)
    if checks.positive(num_ranks, "num_ranks") > _MOST_RANKS:
        raise ValueError(f"`num_ranks` must be at most {_MOST_RANKS}. Received: {num_ranks}")
    checks.one_of(strategy, STRATEGIES, "strategy")
    rules = PlacementRules(
        num_ranks, column_slice_threshold, row_slice_threshold, data_parallel_threshold
    )
    if memory_budget is not None:
        memory_budget = parse_bytes(memory_budget, "memory_budget")
    cost_model = _check_cost_model(cost_model)
    if strategy == "auto" and num_ranks > 1:
        placements = auto_placement(tables, rules, memory_budget, cost_model)
        if placements is None:
            refuse_impossible(tables, num_ranks, memory_budget)
            raise ValueError(
                "`memory_budget` must hold the tables as the thresholds place them. Leave "
                "thresholds out, or give each rank more memory. Received: "
                f"memory_budget={memory_budget}, row_slice_threshold={row_slice_threshold}, "
                f"data_parallel_threshold={data_parallel_threshold}"
            )
        rank_tables = _tables_of_ranks(placements, num_ranks)
    else:
        plain = "basic" if strategy == "auto" else strategy
        placements, rank_tables = place_by_threshold(tables, plain, rules)
    plan = Plan(
        tables,
        placements,
        rank_tables,
        num_ranks,
        strategy,
        input_table_map,
        memory_budget,
        cost_model,
    )
    check_budget(plan)
    return plan


def _check_tables(tables):
    if not isinstance(tables, (list, tuple)) or not tables:
        raise TypeError(
            f"`tables` must be a non-empty list of TableSpec. Received: tables={tables!r}"
        )
    tables = [TableSpec.from_config(each) if isinstance(each, dict) else each for each in tables]
    names: dict[str, int] = {}
    for i, table in enumerate(tables):
        if not isinstance(table, TableSpec):
            raise TypeError(f"`tables` must be TableSpec. Received: tables[{i}]={table!r}")
        if table.name in names:
            raise ValueError(
                f"Each table must have a unique name. Received: name='{table.name}' of "
                f"tables[{names[table.name]}] and tables[{i}]"
            )
        names[table.name] = i
    return tables


def _with_inputs(tables, input_table_map):
    """Returns tables with one hotness per input, and the map from inputs to tables."""
    if input_table_map is None:
        input_table_map = [i for i, table in enumerate(tables) for _ in _as_tuple(table.hotness)]
    elif not isinstance(input_table_map, (list, tuple)):
        raise TypeError(
            "`input_table_map` must be a list with the index of a table for each input. "
            f"Received: input_table_map={input_table_map!r}"
        )
    num_inputs = [0] * len(tables)
    for i, table in enumerate(input_table_map):
        if not 0 <= checks.integer(table, f"input_table_map[{i}]") < len(tables):
            raise ValueError(
                f"`input_table_map` must hold indices of tables from 0 to {len(tables) - 1}. "
                f"Received: input_table_map[{i}]={table}"
            )
        num_inputs[table] += 1
    counted = []
    for table, count in zip(tables, num_inputs, strict=True):
        hotness = table.hotness
        hotness = hotness if isinstance(hotness, tuple) else (hotness,) * count
        if len(hotness) != count:
            raise ValueError(
                "`hotness` must be a number, or one for each input of the table. Received: "
                f"hotness={table.hotness} of table '{table.name}' with {count} inputs"
            )
        counted.append(dataclasses.replace(table, hotness=hotness))
    return counted, [int(table) for table in input_table_map]


def _as_tuple(hotness):
    return hotness if isinstance(hotness, tuple) else (hotness,)


def _check_cost_model(cost_model):
    if cost_model is None:
        return CostModel()
    if not isinstance(cost_model, CostModel):
        raise TypeError(f"`cost_model` must be a CostModel. Received: cost_model={cost_model!r}")
    return cost_model


def _tables_of_ranks(placements, num_ranks):
    """Returns the list of tables of each rank, ordered by kind as in `Plan.tables_of`."""
    of_ranks: list[list[int]] = [[] for _ in range(num_ranks)]
    order = {"table_wise": 0, "column_wise": 0, "row_wise": 1, "data_parallel": 2}
    for i in sorted(range(len(placements)), key=lambda i: order[placements[i].kind]):
        for rank in placements[i].ranks:
            of_ranks[rank].append(i)
    return of_ranks


@dataclasses.dataclass(frozen=True)
class PlacementRules:
    """Decides by the thresholds of a plan, before a strategy does.

    Args:
        num_ranks: Integer.
        column_slice_threshold, row_slice_threshold, data_parallel_threshold: Integers above 0,
            elements, or `None`. As in `plan_placement`.
    """

    num_ranks: int
    column_slice_threshold: int | None = None
    row_slice_threshold: int | None = None
    data_parallel_threshold: int | None = None

    def __post_init__(self):
        for name in ("column_slice_threshold", "row_slice_threshold", "data_parallel_threshold"):
            checks.positive_or_none(getattr(self, name), name)

    def kind_of(self, table):
        """Returns `"data_parallel"` or `"row_wise"`, or `None`, where a strategy decides."""
        if self.num_ranks == 1:
            return None
        if table.is_dynamic:
            return "row_wise"
        elements = table.num_elements
        if self.data_parallel_threshold and elements <= self.data_parallel_threshold:
            return "data_parallel"
        if self.row_slice_threshold and elements >= self.row_slice_threshold:
            return "row_wise"
        return None

    def num_slices_of(self, table):
        """Returns into how many slices the table is cut at least."""
        if self.column_slice_threshold is None or table.is_dynamic:
            return 1
        return num_slices_below(table, self.column_slice_threshold, self.num_ranks)
