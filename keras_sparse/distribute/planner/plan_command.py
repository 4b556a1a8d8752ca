import argparse
import pathlib

from keras_sparse.distribute.planner.cost_model import CostModel
from keras_sparse.distribute.planner.placement import plan_placement
from keras_sparse.distribute.planner.placement import STRATEGIES
from keras_sparse.distribute.planner.table_file import read_tables
from keras_sparse.plotting import import_pyplot

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
    parser.add_argument("--ranks", required=True, type=int, help="how many there are")
    parser.add_argument("--strategy", default="basic", choices=STRATEGIES)
    for name in ("column-slice", "row-slice", "data-parallel"):
        parser.add_argument(f"--{name}-threshold", type=int, metavar="ELEMENTS")
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


def run(options):
    """Plans, prints, draws and saves.

    Args:
        options: `argparse.Namespace` of the options of the command.
    """
    if options.picture:
        import_pyplot()  # what is missing is said before the work, not after it
    plan = plan_placement(
        read_tables(options.tables, options.num_slots),
        options.ranks,
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
    plan.print()
    if options.picture:
        _draw(plan, options.picture)
        print(f"Picture: {options.picture}")
    if options.save:
        options.save.write_text(plan.to_json() + "\n")
        print(f"Plan: {options.save}")


def _path(text):
    return pathlib.Path(text).expanduser()


def _draw(plan, path):
    from matplotlib.figure import Figure

    # Without pyplot: a file needs no display.
    figure = Figure(figsize=(8, 4), layout="constrained")
    plan.plot(figure.subplots())
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
