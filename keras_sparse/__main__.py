"""The command `python -m keras_sparse`."""

import importlib
import sys

import tensorflow as tf

from keras_sparse.commands.parser import parse
from keras_sparse.install_horovod import InstallError


def main(arguments=None):
    """Runs a command; returns the exit status: 0, 2 for what was given, 1 for other failures.

    Args:
        arguments: List of strings. Defaults to `None`, those of the command line.
    """
    options = parse(arguments)
    try:
        importlib.import_module(options.module).run(options)
    except (MemoryError, tf.errors.ResourceExhaustedError) as error:
        print(f"python -m keras_sparse: error: too little memory: {error}", file=sys.stderr)
        return 1
    except (ImportError, OSError, TypeError, ValueError, InstallError) as error:
        print(f"python -m keras_sparse: error: {error}", file=sys.stderr)
        return 1 if isinstance(error, InstallError) else 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
