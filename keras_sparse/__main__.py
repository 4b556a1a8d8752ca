"""The command `python -m keras_sparse`."""

import sys

import tensorflow as tf

from keras_sparse.commands.parser import parse
from keras_sparse.commands.run_command import run_command
from keras_sparse.commands.run_command import say_too_little_memory


def main(arguments=None):
    """Runs a command; returns the exit status: 0, 2 for what was given, 1 for other failures.

    Args:
        arguments: List of strings. Defaults to `None`, those of the command line.
    """
    try:
        return run_command(parse(arguments))
    except tf.errors.ResourceExhaustedError as error:
        say_too_little_memory(error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
