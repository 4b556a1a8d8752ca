"""The command `python -m keras_sparse`."""

import argparse
import sys

import tensorflow as tf

from keras_sparse.commands import bench_command
from keras_sparse.commands import info_command
from keras_sparse.commands import inspect_command
from keras_sparse.commands import install_horovod_command
from keras_sparse.distribute.planner import plan_command
from keras_sparse.install_horovod import InstallError

_COMMANDS = (info_command, plan_command, inspect_command, bench_command, install_horovod_command)
_ABOUT = """Each command has its own --help. The exit status is 0 if all went well, 2 if the
arguments, or the files that they name, are not what the command takes, and 1 for other failures.
"""


def main(arguments=None):
    """Runs a command; returns the exit status: 0, 2 for what was given, 1 for other failures.

    Args:
        arguments: List of strings. Defaults to `None`, those of the command line.
    """
    parser = argparse.ArgumentParser(prog="python -m keras_sparse", epilog=_ABOUT)
    commands = parser.add_subparsers(required=True, metavar="command")
    for command in _COMMANDS:
        command.add_to(commands)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except (MemoryError, tf.errors.ResourceExhaustedError) as error:
        print(f"python -m keras_sparse: error: too little memory: {error}", file=sys.stderr)
        return 1
    except (ImportError, OSError, TypeError, ValueError, InstallError) as error:
        print(f"python -m keras_sparse: error: {error}", file=sys.stderr)
        return 1 if isinstance(error, InstallError) else 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
