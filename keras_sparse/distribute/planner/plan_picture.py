import numpy as np

from keras_sparse.utils.plotting import axes_or_new

_COLORS = {
    "table_wise": "#00796b",
    "column_wise": "#4db6ac",
    "row_wise": "#90a4ae",
    "data_parallel": "#cfd8dc",
}
_LOAD_COLOR = "#d0743c"
_GIGA = 10**9


def draw_plan(plan, ax=None):
    """Draws what `Plan.plot` says, and returns the axes."""
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
