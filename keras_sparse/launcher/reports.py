"""Tells `python -m keras_sparse launch` how far a rank is.

A report is a line of the rank's output, which reaches the launcher from every host. The launcher
shows the lines around it, and not the report.
"""

import contextlib
import json
import os

# The environment variable with the name of the attempt, in the ranks that the launcher starts.
ATTEMPT = "KERAS_SPARSE_LAUNCHED"

MARK = "::keras_sparse::"

# The exit status of a rank that saved its state after a signal, and of the launcher then: "try
# again later" (EX_TEMPFAIL of sysexits.h).
TRY_AGAIN = 75


def report(event, **facts):
    """Reports an event of this rank to the launcher. Does nothing without a launcher.

    Args:
        event: String: `"started"`, `"alive"` and `"gone"` of a process; `"resumed"`, `"step"`,
            `"saved"`, `"stopped"` by a signal and `"finished"` of a `fit`.
        facts: Values that JSON can hold, such as `step=100`.
    """
    if os.environ.get(ATTEMPT):
        line = f"{MARK}{json.dumps({'event': event, **facts})}\n"
        with contextlib.suppress(OSError):  # of a launcher that has ended
            os.write(1, line.encode())  # one call, so that no other line of this process splits it
