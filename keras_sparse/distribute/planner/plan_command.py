import argparse
import json
import pathlib

from keras_sparse import checks
from keras_sparse.distribute.planner.cost_model import CostModel
from keras_sparse.distribute.planner.placement import plan_placement
from keras_sparse.distribute.planner.placement import STRATEGIES
from keras_sparse.distribute.planner.scaling import scaling_of
from keras_sparse.distribute.planner.scaling import scaling_text
from keras_sparse.distribute.planner.table_file import read_tables
from keras_sparse.plotting import check_picture
from keras_sparse.plotting import save_picture

_ABOUT = """Says which rank would hold what of the tables in a file, and prints the plan.

The file is a JSON list with an object a table:

  [{"name": "users", "rows": 1000000, "width": 32, "combiner": "sum", "hotness": 20},
   {"name": "items", "rows": 200000, "width": 32},
   {"name": "queries", "rows": null, "width": 16}]

rows is null for a table of any keys. hotness is the mean number of ids a sample, or a list with a
number for each input of the table. Left out may be: combiner (null, "sum", "mean", "sqrtn"),
hotness (1), num_slots (as --num-slots), trainable (true), and first_tier_bytes (null), the bytes of
memory that a table of any keys takes on each rank.
"""

_THRESHOLDS = {
    "column-slice": "cut tables of more, rows * width, by columns",
    "row-slice": "spread tables of as many over all ranks by rows",
    "data-parallel": "copy tables of at most as many to all ranks",
}


def add_to(commands):
    """Adds the command `plan`.

    Args:
        commands: What `argparse.ArgumentParser.add_subparsers` returns.
    """
    parser = commands.add_parser(
        "plan",
        help="say which rank would hold what of your tables",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    parser.add_argument("--tables", required=True, type=_path, help="the JSON file")
    parser.add_argument(
        "--ranks",
        required=True,
        type=int,
        nargs="+",
        help="how many there are; several numbers show how the step scales",
    )
    text = "who gets what (basic); auto: what is predicted to be fastest"
    parser.add_argument("--strategy", default="basic", choices=STRATEGIES, help=text)
    for name, text in _THRESHOLDS.items():
        parser.add_argument(f"--{name}-threshold", type=int, metavar="ELEMENTS", help=text)
    parser.add_argument("--memory-budget", metavar="BYTES", help="of a rank, such as 16GB or 16GiB")
    parser.add_argument(
        "--num-slots", type=int, default=0, help="of the optimizer, for tables that do not say it"
    )
    for name in ("memory_bandwidth", "network_bandwidth", "batch_size", "table_seconds"):
        option = "--" + name.replace("_", "-")
        default = getattr(CostModel, name)
        text = f"of a rank, for predictions; {default:g} if not given"
        parser.add_argument(option, type=type(default), default=default, help=text)
    parser.add_argument("--picture", type=_path, help="draw the plan into this file")
    parser.add_argument("--save", type=_path, help="write the plan into this file, as JSON")
    parser.add_argument("--json", action="store_true", help="print plan and predictions as JSON")


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


def _path(text):
    return pathlib.Path(text).expanduser()


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
