"""Kills a DLRM training at random, again and again, and compares it with one that never was.

python tools/soak.py [--kills 30] [--seed 0] [--folder FOLDER]

`python -m keras_sparse launch` starts the ranks of `tools/soak_training.py`, on 3 and 2 slots by
turns. The checkpoints show which number of ranks trained which batches. A training that nothing
kills then trains the same batches on the same numbers of ranks: rows, slots, ages, counts
and metrics of both must be equal, bit for bit.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

TRAINING = pathlib.Path(__file__).with_name("soak_training.py")
SLOTS = (3, 2, 3, 3, 2, 2)  # of the hosts, one start after another
KINDS = {
    "kill -9 of a rank": 8,
    "kill -9 of all ranks": 4,
    "kill -9 of the launcher": 4,
    "SIGTERM of a rank": 4,
    "SIGSTOP of a rank": 2,
}
HOSTS = """#!/bin/sh
starts=$(grep -c '"rank": 0, .*"begin"' {folder}/log.jsonl)
set -- {slots}
shift $((starts % $#))
echo localhost:$1
"""
SECONDS_TO_RESUME = 180
ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "2", "KERAS_SPARSE_STALL_SECONDS": "20"}


class Soak:
    """A training that a launcher starts, and what its ranks write down of it."""

    def __init__(self, folder, data, launcher):
        self.folder, self._data, self._launcher = folder, data, launcher
        self._log = folder / "log.jsonl"
        self._log.touch()
        hosts = folder / "hosts.sh"
        hosts.write_text(
            HOSTS.format(folder=shlex.quote(str(folder)), slots=" ".join(map(str, SLOTS)))
        )
        hosts.chmod(0o755)
        self.start()

    def start(self):
        options = ["--ranks", "3", "--min-ranks", "2", "--max-restarts", "100"]
        folders = ["--hosts-script", self.folder / "hosts.sh", "--log-dir", self.folder / "logs"]
        command = [*self._launcher, *options, *folders, TRAINING, self.folder, self._data]
        with open(self.folder / "launcher.log", "a", encoding="utf-8") as output:
            files = {"stdout": output, "stderr": subprocess.STDOUT}
            environment = {**os.environ, **ENVIRONMENT}
            self.launcher = subprocess.Popen(list(map(str, command)), env=environment, **files)

    def lines(self):
        text = self._log.read_text(encoding="ascii")
        return [json.loads(line) for line in text.splitlines()]

    def pids(self):
        """Returns the processes of the ranks that run, in the order of ranks."""
        last = {line["rank"]: line["pid"] for line in self.lines() if "begin" in line}
        return [pid for _, pid in sorted(last.items()) if is_training(pid)]

    def first_after(self, moment, what):
        """Returns rank 0's first line after a moment of a `"begin"` or `"batch"`, or `None`."""
        lines = (each for each in self.lines() if what in each and each["rank"] == 0)
        return next((each for each in lines if each["time"] > moment), None)

    def num_batches(self):
        """Returns how many batches were trained, as the last line says."""
        return next((each["batch"] for each in reversed(self.lines()) if "batch" in each), 0)

    def kill(self, kind, chance):
        """Kills what a kind names."""
        if kind == "kill -9 of the launcher":
            self.launcher.kill()
            self.launcher.wait()
            self.start()
            return
        pids = self.pids()
        number = {"SIGT": signal.SIGTERM, "SIGS": signal.SIGSTOP}.get(kind[:4], signal.SIGKILL)
        chosen = pids if kind.endswith("all ranks") else pids and [chance.choice(pids)]
        for pid in chosen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def end(self):
        """Ends what runs, if it has not come to its end."""
        self.launcher.kill()
        for pid in self.pids():
            os.kill(pid, signal.SIGKILL)

    def check_launcher(self):
        if self.launcher.poll() is not None:
            raise SystemExit(
                f"The launcher ended with status {self.launcher.returncode}; see "
                f"{self.folder / 'launcher.log'}"
            )


def is_training(pid):
    """Returns whether a process is a rank of the training, and not another with its number."""
    try:
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return TRAINING.name.encode() in command and state != "Z"


def wait_for(soak, look, *arguments):
    """Waits until a function of the training's lines finds something, and returns that."""
    end = time.monotonic() + SECONDS_TO_RESUME
    while time.monotonic() < end:
        if found := look(soak, *arguments):
            return found
        soak.check_launcher()
        time.sleep(0.1)
    raise SystemExit(f"Training did not go on in {SECONDS_TO_RESUME} s; see {soak.folder}")


def disturb(soak, num_kills, chance):
    """Kills at random moments. Returns of each its kind, the seconds, and the batches again."""
    done, kinds, weights = [], list(KINDS), list(KINDS.values())
    for number in range(num_kills):
        # Each kind once, and then by their weights.
        kind = kinds[number] if number < len(kinds) else chance.choices(kinds, weights)[0]
        wanted = soak.num_batches() + chance.randint(1, 60)
        wait_for(soak, lambda soak, wanted: soak.num_batches() >= wanted, wanted)
        time.sleep(chance.random() / 10)
        before, moment = soak.num_batches(), time.time()
        soak.kill(kind, chance)
        start = wait_for(soak, Soak.first_after, moment, "begin")
        is_again = chance.random() < 0.2  # at the moment when training goes on
        if is_again:
            soak.kill("kill -9 of a rank", chance)
            start = wait_for(soak, Soak.first_after, start["time"], "begin")
        first = wait_for(soak, Soak.first_after, start["time"], "batch")
        done.append((kind, first["time"] - moment, max(0, before - start["begin"])))
        print(
            f"{number + 1:3} of {num_kills}: {kind}{', and once more,' if is_again else ''} at "
            f"batch {before}; went on after {done[-1][1]:.1f} s on {start['ranks']} ranks, "
            f"{done[-1][2]} batches again",
            flush=True,
        )
    return done


def chain(lines):
    """Returns `[first batch, number of ranks]` of all training that the last checkpoint has."""
    kept = []
    for line in lines:
        if "begin" in line and line["rank"] == 0:
            while kept and kept[-1][0] >= line["begin"]:
                kept.pop()
            if not kept or kept[-1][1] != line["ranks"]:
                kept.append([line["begin"], line["ranks"]])
    return kept


def run(command):
    """Runs a command, whose output is shown if it fails."""
    files = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    environment = {**os.environ, **ENVIRONMENT}
    ended = subprocess.run(list(map(str, command)), env=environment, **files)
    if ended.returncode:
        raise SystemExit(f"{ended.stdout}\nEnded with status {ended.returncode}: {command}")


def undisturbed(folder, data, kept, last_batch):
    """Trains the same batches on the same numbers of ranks."""
    ends = [begin for begin, _ in kept[1:]] + [last_batch]
    for (begin, num_ranks), end in zip(kept, ends, strict=True):
        print(f"Undisturbed: batches {begin} to {end} on {num_ranks} ranks", flush=True)
        horovodrun = [sys.executable, "-m", "horovod.runner.launch", "--gloo", "-np", num_ranks]
        run([*horovodrun, sys.executable, TRAINING, folder, data, "--stop-at", end])


def compare(folders, data):
    """Returns the names of what differs, with the largest difference."""
    found = []
    for folder in folders:
        path = folder / "all.npz"
        run([sys.executable, TRAINING, folder, data, "--export", path])
        found.append(dict(np.load(path)))
    ours, theirs = found
    if list(ours) != list(theirs):
        return {"names": sorted(set(ours) ^ set(theirs))}
    different = {}
    for name, value in ours.items():
        if value.tobytes() != theirs[name].tobytes():
            is_number = value.dtype.kind == "f" and value.shape == theirs[name].shape
            different[name] = float(np.max(np.abs(value - theirs[name]))) if is_number else "other"
    num_rows = sum(len(value) for name, value in ours.items() if name.endswith("/keys"))
    print(f"Compared {len(ours)} arrays with {num_rows:,} rows; metrics {ours['metrics']}")
    return different


def make_data(folder):
    """Made-up click logs, as features."""
    dlrm = [sys.executable, "-m", "examples.dlrm"]
    os.chdir(TRAINING.parents[1])
    run([*dlrm, "generate", "--output", folder / "raw", "--samples", 20_000])
    hashed = ["--hash_buckets", 1000, "--output", folder / "features"]
    run([*dlrm, "preprocess", "--train", folder / "raw" / "train.txt", *hashed])
    return folder / "features"


def report(done):
    """Prints what kills of each kind have cost."""
    print(f"\n{'kind':<38}{'kills':>6}{'seconds to go on':>24}{'batches again':>20}")
    print(f"{'':<38}{'':>6}{'median':>14}{'largest':>10}{'median':>10}{'largest':>10}")
    for kind in [*KINDS, "all"]:
        some = [each for each in done if kind in ("all", each[0])]
        if some:
            seconds, again = ([each[i] for each in some] for i in (1, 2))
            print(
                f"{kind:<38}{len(some):>6}{np.median(seconds):>14.1f}{max(seconds):>10.1f}"
                f"{np.median(again):>10.0f}{max(again):>10}"
            )


def main(options):
    """Kills, trains the same undisturbed, compares, and ends with 1 if anything differs."""
    folder = pathlib.Path(options.folder or tempfile.mkdtemp(prefix="soak-")).resolve()
    disturbed, whole = folder / "disturbed", folder / "undisturbed"
    for each in (disturbed, whole):
        each.mkdir(parents=True)
    print(f"Everything is in {folder}, seed {options.seed}", flush=True)
    data = make_data(folder)
    soak = Soak(disturbed, data, shlex.split(options.launcher))
    try:
        done = disturb(soak, options.kills, random.Random(options.seed))
        (disturbed / "last-epoch").write_text(str(soak.num_batches() // 25 + 1))
        if status := soak.launcher.wait(SECONDS_TO_RESUME):
            raise SystemExit(f"The launcher ended with {status}; see {disturbed}/launcher.log")
    finally:
        soak.end()
    undisturbed(whole, data, chain(soak.lines()), soak.num_batches())
    different = compare([disturbed, whole], data)
    report(done)
    for name, difference in different.items():
        print(f"DIFFERENT: {name}: {difference}")
    sys.exit(bool(different))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0, help="of kinds and moments (0)")
    parser.add_argument("--folder", help="for everything; default: a new one in /tmp")
    launcher = f"{sys.executable} -m keras_sparse launch"
    parser.add_argument("--launcher", default=launcher, help="for a try of another one")
    main(parser.parse_args())
