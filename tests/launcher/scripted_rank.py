"""A rank that does in each attempt what a list says, without training.

python tests/launcher/scripted_rank.py LOGS JSON

The list has for each attempt a word for each rank, or one for all. The last one counts for all
attempts that follow.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parents[2]
# By its path: the package imports TensorFlow.
spec = importlib.util.spec_from_file_location(
    "reports", ROOT / "keras_sparse" / "launcher" / "reports.py"
)
reports = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reports)

logs, plan = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])
attempt = len(list(logs.glob("attempt-*")))
rank = int(os.environ["HOROVOD_RANK"])
words = plan[min(attempt, len(plan)) - 1]
word, _, argument = (words if isinstance(words, str) else words[rank]).partition(" ")


def stop(number, frame):
    if word == "saves":
        time.sleep(float(argument or 0))
        name = signal.Signals(number).name
        reports.report("stopped", step=8, signal=name, received=True)
        sys.exit(reports.TRY_AGAIN)


if word == "full":
    (logs / f"attempt-{attempt:03}" / f"rank-{rank}.log").symlink_to("/dev/full")
print(f"attempt {attempt}, rank {rank} of {os.environ['HOROVOD_SIZE']}: {word}", flush=True)
signal.signal(signal.SIGTERM, signal.SIG_DFL if word == "waits" else stop)
if word == "mistyped":
    argparse.ArgumentParser().parse_args(["--epoch"])
if word == "fails":
    raise RuntimeError(argument)
if word == "ends":
    sys.exit(int(argument))
if word == "full":
    print("a long line of text\n" * 20_000, end="", flush=True)
    sys.exit(0)
if rank == 0 and word != "done":
    # A progress bar has begun the line.
    print("7/10 ...", end="", flush=True)
    reports.report("step", step=7)
    print(flush=True)
if rank == 0 and argument == "saved":
    reports.report("saved", step=6, path="here")
if word == "leaves":
    # It has the output of the rank, for whose end horovodrun waits.
    subprocess.Popen(["sleep", "600"])
    if argument:
        sys.exit(0)
if word in ("killed", "leaves"):
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL)
if word == "late":
    raise RuntimeError("at step 8")
if word != "done":
    print("ready", flush=True)
while word != "done":
    time.sleep(1)
    if rank == 0 and argument == "saved":
        reports.report("saved", step=6, path="here")
