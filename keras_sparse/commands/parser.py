"""Reads the command line without TensorFlow, so that help and mistakes are answered at once."""

import argparse
import importlib
import os
import pathlib
import re

_ABOUT = """Each command has its own --help. The exit status is 0 if all went well, 2 if the
arguments, or the files that they name, are not what the command takes, and 1 for other failures.
"""
_ABOUT_INFO = """Says which versions are installed, what the native library was built with, and
what this machine has. Put it into a report of a problem.
"""
_ABOUT_PLAN = """Says which rank would hold what of the tables in a file, and prints the plan.

The file is a JSON list with an object a table:

  [{"name": "users", "rows": 1000000, "width": 32, "combiner": "sum", "hotness": 20},
   {"name": "items", "rows": 200000, "width": 32},
   {"name": "queries", "rows": null, "width": 16}]

rows is null for a table of any keys. hotness is the mean number of ids a sample, or a list with a
number for each input of the table. Left out may be: combiner (null, "sum", "mean", "sqrtn"),
hotness (1), num_slots (as --num-slots), trainable (true), row_dtype and slot_dtype ("float32"), and
first_tier_bytes (null), the bytes of memory that a table of any keys takes on each rank.
"""
_ABOUT_INSPECT = """Says what is in a checkpoint or delta, in the last one of a folder of them, or
in a .weights.h5, .weights.json or .keras file: its tables, their records, slots and files. A record
is a row with its slots; a row that has changed since a checkpoint linked it has two. Reads no
records unless it is to verify them, or to write a page.
"""
_ABOUT_BENCH = """Times lookups and training steps with Adagrad, of keras_sparse beside
keras.layers.Embedding, on the CPUs of this machine: in half a minute and 2 GB of memory.

  tables  one id in each of 26 tables, whose rows are joined
  bags    1 to 20 ids of one table, whose rows are summed
  keys    any 64-bit keys; of Keras their remainders, so that some share a row

A step is lookup, gradient and update. All take turns on the same ids; the numbers are medians.
Compare their ratios. Tables of gigabytes, other libraries and optimizers: python -m benchmarks, in
a checkout.
"""
_ABOUT_INSTALL_HOROVOD = """Builds Horovod, with which several processes train one model, for the
TensorFlow of this Python, and installs it. Takes a minute or two the first time and keeps
the wheel in ~/.cache/keras_sparse for the next. It needs a C++ compiler, make and a package
index. Variables named HOROVOD_*, such as HOROVOD_GPU_OPERATIONS=NCCL, reach the build.
"""
_ABOUT_LAUNCH = """Starts a training script on ranks, and starts it again when a rank dies, a host
no longer answers or all ranks stand still. A script that trains with
keras_sparse.callbacks.Checkpoint resumes by itself, on any number of ranks.

  python -m keras_sparse launch --ranks 4 train.py --epochs 3
  python -m keras_sparse launch -H alpha:2,beta:2 --min-ranks 2 --log-dir logs train.py

SIGINT and SIGTERM end all ranks in order; a second one ends them at once. The exit status is 0 when
the training is done, 75 if the ranks saved a checkpoint after a signal and want to go on later, and
128 and the signal's number if they ended without one.
"""

# The modules that run the commands, whose constants these are, import TensorFlow.
STRATEGIES = ("basic", "memory_balanced", "memory_optimized", "auto")
COST_MODEL = {
    "memory_bandwidth": 2e10,
    "network_bandwidth": 2.5e9,
    "batch_size": 4096,
    "table_seconds": 1e-5,
}
WORKLOADS = ("tables", "bags", "keys")
THRESHOLDS = {
    "column-slice": "cut tables of more, rows * width, by columns",
    "row-slice": "spread tables of as many over all ranks by rows",
    "data-parallel": "copy tables of at most as many to all ranks",
}


def parse(arguments=None):
    """Returns the options of a command as `argparse.Namespace`: `module` is what runs it.

    Args:
        arguments: List of strings. Defaults to `None`, those of the command line.

    Raises:
        SystemExit: After `--help`, with status 0, and after a mistake, with status 2.
    """
    parser = argparse.ArgumentParser(prog="python -m keras_sparse", epilog=_ABOUT)
    commands = parser.add_subparsers(required=True, metavar="command")
    _add_info(commands)
    _add_plan(commands)
    _add_inspect(commands)
    _add_bench(commands)
    _add_install_horovod(commands)
    _add_launch(commands)
    options = parser.parse_args(arguments)
    if getattr(options, "command", None) == []:
        commands.choices["launch"].error("a script must be given, such as train.py")
    return options


def import_quietly(name):
    """Imports TensorFlow without its notes, some of which it writes whatever its log level is."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        kept = os.dup(2)
    except OSError:  # nobody listens
        return
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        importlib.import_module(name)
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _add(commands, name, text, about):
    parser = commands.add_parser(
        name, help=text, description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    folder = "distribute.planner" if name == "plan" else "commands"
    parser.set_defaults(module=f"keras_sparse.{folder}.{name.replace('-', '_')}_command")
    return parser


def _add_info(commands):
    parser = _add(commands, "info", "say what is installed, built and there", _ABOUT_INFO)
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def _add_plan(commands):
    text = "say which rank would hold what of your tables"
    parser = _add(commands, "plan", text, _ABOUT_PLAN)
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
    for name, text in THRESHOLDS.items():
        parser.add_argument(f"--{name}-threshold", type=int, metavar="ELEMENTS", help=text)
    parser.add_argument("--memory-budget", metavar="BYTES", help="of a rank, such as 16GB or 16GiB")
    parser.add_argument(
        "--num-slots", type=int, default=0, help="of the optimizer, for tables that do not say it"
    )
    for name, default in COST_MODEL.items():
        option = "--" + name.replace("_", "-")
        text = f"of a rank, for predictions; {default:g} if not given"
        parser.add_argument(option, type=type(default), default=default, help=text)
    parser.add_argument("--picture", type=_path, help="draw the plan into this file")
    parser.add_argument("--save", type=_path, help="write the plan into this file, as JSON")
    parser.add_argument("--json", action="store_true", help="print plan and predictions as JSON")


def _add_inspect(commands):
    text = "say what is in a checkpoint or a weights file"
    parser = _add(commands, "inspect", text, _ABOUT_INSPECT)
    parser.add_argument("path", help="the folder or the file")
    parser.add_argument("--verify", action="store_true", help="check every byte of the tables too")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print it as JSON")
    text = "write it as one page for a browser, with charts of all rows, which are read once"
    form.add_argument("--html", type=_path, metavar="FILE", help=text)


def _add_bench(commands):
    text = "time lookups and training steps beside keras.layers.Embedding"
    parser = _add(commands, "bench", text, _ABOUT_BENCH)
    parser.add_argument(
        "--workloads",
        nargs="+",
        choices=WORKLOADS,
        default=list(WORKLOADS),
        metavar="NAME",
        help="all by default",
    )
    parser.add_argument("--batch-size", type=int, default=4096, help="4096 by default")
    parser.add_argument("--scale", type=float, default=1.0, help="rows of each table, x this")
    parser.add_argument(
        "--turns", type=int, default=5, help="5 by default; a turn is 8 lookups and 8 steps"
    )
    parser.add_argument("--picture", type=pathlib.Path, help="draw the medians into this file")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def _add_install_horovod(commands):
    text = "build Horovod, for several processes"
    parser = _add(commands, "install-horovod", text, _ABOUT_INSTALL_HOROVOD)
    parser.add_argument("--force", action="store_true", help="also where Horovod works already")


def _add_launch(commands):
    parser = _add(commands, "launch", "run a training that survives its machines", _ABOUT_LAUNCH)
    parser.add_argument(
        "--ranks", type=_at_least(1), help="ranks to start; default: all of --hosts"
    )
    text = "start with fewer hosts if they have room for so many ranks, else wait; default: --ranks"
    parser.add_argument("--min-ranks", type=_at_least(1), help=text)
    text = "after a checkpoint, start again on more ranks if hosts have room, at most so many"
    parser.add_argument("--max-ranks", type=_at_least(1), help=text)
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "-H", "--hosts", help="hosts and ranks, as alpha:2,beta:2; default: this machine"
    )
    text = "program that prints one host per line, as alpha:2; it runs before each start"
    where.add_argument("--hosts-script", type=_path, metavar="FILE", help=text)
    text = "give up after so many restarts without a new checkpoint; default: 10"
    parser.add_argument("--max-restarts", type=_at_least(0), default=10, help=text)
    text = "folder for the output of each rank and attempt; default: none"
    parser.add_argument("--log-dir", type=_path, metavar="DIR", help=text)
    text = "start again if a fit makes no step for so long, as when a disk hangs; default: never"
    parser.add_argument("--stall-seconds", type=_at_least(1), metavar="SECONDS", help=text)
    text = "time for ranks to save between SIGTERM and SIGKILL; default: 60"
    parser.add_argument("--grace", type=_at_least(0), default=60, metavar="SECONDS", help=text)
    text = 'further options for horovodrun, such as "--network-interfaces eth0"'
    parser.add_argument("--horovodrun", default="", metavar="OPTIONS", help=text)
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="train.py ...", help="the script, or a program"
    )


def _at_least(least):
    def number_of(text):
        number = int(text) if re.fullmatch(r"-?\d+", text) else least - 1
        if number < least:
            raise argparse.ArgumentTypeError(
                f"must be an integer of at least {least}. Received: '{text}'"
            )
        return number

    return number_of


def _path(text):
    return pathlib.Path(text).expanduser()
