"""Adds to the error that a rank ends with."""

import re
import sys
import textwrap
import threading

# How Horovod's errors are known, over each of its transports.
_OF_HOROVOD = re.compile(r"Horovod has been shut down|/gloo/\w+/|(MPI_|nccl)\w+ failed")

_MOST_CHARACTERS = 500  # of an error that is said once more, in one line

# Set once all ranks have waited for each other and the watch has ended the calls of this one.
stalled = threading.Event()


def explain_uncaught_errors(prefix):
    """Lets every error that ends this process say which rank it was, and why others end with it.

    Where a rank ends, Horovod lets the exchanges of the others fail. Their errors do not say that
    they are not the cause.

    Args:
        prefix: String: `"[rank 3 of 8] "`.
    """
    shown_by = sys.excepthook

    def show(kind, error, traceback):
        add_rank_error_notes(error, prefix)
        shown_by(kind, error, traceback)

    sys.excepthook = show


def add_rank_error_notes(error, prefix):
    """Adds a note to an error, which Python prints below it.

    Args:
        error: Exception.
        prefix: String, as in `explain_uncaught_errors`.
    """
    if not isinstance(error, Exception):  # the user ends the process, or the program itself
        return
    if _OF_HOROVOD.search(str(error)) and stalled.is_set():
        error.add_note(f"{prefix}This rank ends because all ranks waited for each other, see above")
    elif _OF_HOROVOD.search(str(error)):
        error.add_note(
            f"{prefix}This rank ends because another rank has ended, or cannot be reached. Look at "
            "what the others have printed: the cause is the error of the one that ended first. A "
            "rank without any was killed, perhaps as memory ran out; or it was done, because not "
            "all ranks call `fit`, `evaluate` and `predict`, with as many batches."
        )
    else:
        if prefix not in str(error):
            # TensorFlow puts the frames of a graph before the cause.
            lines = [each for each in str(error).splitlines() if not each.startswith("  File ")]
            text = f"{type(error).__name__}: {' '.join(lines)}"
            error.add_note(f"{prefix}{textwrap.shorten(text, _MOST_CHARACTERS)}")
        error.add_note(f"{prefix}This rank ends with the error above, and the others with it.")
