"""Runs a command and turns its errors into an exit status. Does not import TensorFlow itself."""

import importlib
import sys

from keras_sparse.install_horovod import InstallError


def run_command(options):
    """Returns the exit status of a command: 2 for what was given, 1 for other failures.

    Args:
        options: `argparse.Namespace` of `keras_sparse.commands.parser`.
    """
    try:
        return importlib.import_module(options.module).run(options) or 0
    except MemoryError as error:
        say_too_little_memory(error)
        return 1
    except (ImportError, OSError, TypeError, ValueError, InstallError) as error:
        print(f"python -m keras_sparse: error: {error}", file=sys.stderr)
        return 1 if isinstance(error, InstallError) else 2


def say_too_little_memory(error):
    """Prints the error of a command that found too little memory."""
    print(f"python -m keras_sparse: error: too little memory: {error}", file=sys.stderr)
