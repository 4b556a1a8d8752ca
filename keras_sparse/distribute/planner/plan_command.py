import json

from keras_sparse.distribute.planner.cost_model import CostModel
from keras_sparse.distribute.planner.placement import plan_placement
from keras_sparse.distribute.planner.scaling import scaling_of
from keras_sparse.distribute.planner.scaling import scaling_text
from keras_sparse.distribute.planner.table_file import read_tables
from keras_sparse.utils import checks
from keras_sparse.utils.plotting import check_picture
from keras_sparse.utils.plotting import save_picture


def run(options):
    """Plans, prints, draws and saves.

    Args:
        options: `argparse.Namespace` of the options of the command.
    """
    if len(options.ranks) > 1:
        _run_scaling(options)
        return
    if options.picture:
        check_picture(options.picture)  # what is missing is said before the work, not after it
    plan = _plan(options, options.ranks[0])
    lines = [_to_json(plan) if options.json else str(plan)]
    if options.picture:
        save_picture(plan.plot, options.picture, (8, 4))
        lines.append(f"Picture: {options.picture}")
    if options.save:
        options.save.write_text(plan.to_json() + "\n")
        lines.append(f"Plan: {options.save}")
    print("\n".join(lines[:1] if options.json else lines))


def _run_scaling(options):
    if options.picture or options.save:
        raise ValueError(
            "`--picture` and `--save` take one plan. Give one number of ranks. Received: --ranks "
            + " ".join(map(str, options.ranks))
        )
    for num_ranks in options.ranks:
        checks.positive(num_ranks, "ranks")
    plans, without = [], {}
    for num_ranks in sorted(set(options.ranks)):
        try:
            plans.append(_plan(options, num_ranks))
        except ValueError as error:
            if num_ranks == max(options.ranks):
                raise
            without[num_ranks] = str(error)
    found = scaling_of(plans)
    if options.json:
        print(json.dumps({"plans": found, "without": without}, indent=1))
        return
    print(scaling_text(found))
    for num_ranks, reason in without.items():
        print(f"\nNo plan for {num_ranks} ranks: {reason}")


def _plan(options, num_ranks):
    return plan_placement(
        read_tables(options.tables, options.num_slots),
        num_ranks,
        options.strategy,
        column_slice_threshold=options.column_slice_threshold,
        row_slice_threshold=options.row_slice_threshold,
        data_parallel_threshold=options.data_parallel_threshold,
        memory_budget=options.memory_budget,
        cost_model=CostModel(
            options.memory_bandwidth,
            options.network_bandwidth,
            options.batch_size,
            options.table_seconds,
        ),
    )


def _to_json(plan):
    return json.dumps(
        {
            "plan": plan.get_config(),
            "rank_bytes": plan.rank_bytes.tolist(),
            "rank_seconds": plan.rank_seconds.tolist(),
            "step_seconds": plan.step_seconds,
        },
        indent=1,
    )
