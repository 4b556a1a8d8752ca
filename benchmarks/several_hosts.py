"""How a step follows the network between two hosts, beside what a plan predicts.

    python -m benchmarks.several_hosts

`horovodrun` starts a rank on each of two hosts of this machine (`Hosts`), by ssh, once for each
line between them. The plan is made with what `CostModel.measure` finds there. Needs root.
"""

import argparse
import json
import pathlib
import re
import subprocess
import tempfile

from benchmarks import several_hosts_rank
from benchmarks.hosts import Hosts
from benchmarks.launcher import reason_against_ranks

TITLE = "Two hosts: a step by the line between them"
LINES = [(4000, 0.2), (1000, 0.2), (1000, 5), (300, 0.2), (100, 0.2), (100, 20)]
HEAD = ["Mbit/s", "round trip, ms", "ms a step", "predicted", "MB sent", "least, ms"]


def measure(megabits, milliseconds):
    """Returns what rank 0 has measured with this line."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Hosts(pathlib.Path(folder), megabits, milliseconds) as hosts,
    ):
        status, printed = hosts.run(*hosts.horovodrun("-m", several_hosts_rank.__name__))
    found = re.search(r"\{.*\}", printed)
    if status != 0 or found is None:
        raise RuntimeError(f"The ranks must end well. Received: status {status},\n{printed}")
    return json.loads(found[0])


def reason_against():
    """Why this machine permits no such hosts, in words; `None` if it does."""
    try:
        with tempfile.TemporaryDirectory() as folder, Hosts(pathlib.Path(folder)):
            return None
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        return str(error)


def row(megabits, milliseconds, found):
    least = found["sent"] * 8e-3 / megabits
    cells = [megabits, milliseconds, found["milliseconds"], found["predicted"]]
    cells = [f"{cell:g}" for cell in cells[:2]] + [f"{cell:.3g}" for cell in cells[2:]]
    return "| " + " | ".join([*cells, f"{found['sent'] / 1e6:.3g}", f"{least:.3g}"]) + " |"


def main(arguments=None):
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_known_args(arguments)
    reason = reason_against_ranks() or reason_against()
    if reason is not None:
        return f"Left out: {reason}"
    rank = several_hosts_rank
    lines = [
        f"{rank.NUM_TABLES} tables of {rank.INPUT_DIM:,} x {rank.OUTPUT_DIM}, one id each, batches "
        f"of {rank.BATCH_SIZE:,} a rank, Adagrad. `predicted` is what a "
        "plan says that is made with the bandwidths measured there; `least`, the bytes that a rank "
        "sends over the bandwidth of the line.",
        "",
        "| " + " | ".join(HEAD) + " |",
        "|---" * len(HEAD) + "|",
    ]
    for megabits, milliseconds in LINES:
        lines.append(row(megabits, milliseconds, measure(megabits, milliseconds)))
        print(lines[-1], flush=True)
    text = "\n".join(lines)
    print(f"{TITLE}\n\n{text}\n", flush=True)
    return text


if __name__ == "__main__":
    main()
