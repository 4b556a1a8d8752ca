"""The command `python -m keras_sparse`."""

import argparse
import sys

from keras_sparse.commands import info_command
from keras_sparse.commands import inspect_command
from keras_sparse.distribute.planner import plan_command


def main(arguments=None):
    """Runs a command; returns the exit status, 0 or 2.

    Args:
        arguments: List of strings. Defaults to `None`, those of the command line.
    """
    parser = argparse.ArgumentParser(prog="python -m keras_sparse")
    commands = parser.add_subparsers(required=True, metavar="command")
    for command in (info_command, plan_command, inspect_command):
        command.add_to(commands)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except (ImportError, OSError, TypeError, ValueError) as error:
        print(f"python -m keras_sparse: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
