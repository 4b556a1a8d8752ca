"""How long does `.weights.h5` take to write and read, and how much memory beside the table?

    python -m benchmarks.saving

A model of one table of 5,000,000 x 64 with Adagrad's slot, every row trained. The clock includes
what the operating system holds back of a write (the file is synced). `extra` is the highest memory
of the process over what it held before the call, less what the table itself grew by.
"""

import argparse
import os
import pathlib
import tempfile
import time

import numpy as np

from benchmarks import workloads
from benchmarks.memory import DIM
from benchmarks.memory import touch_all
from benchmarks.process import forget_peak
from benchmarks.process import in_fresh_process
from benchmarks.process import resident_bytes
from benchmarks.report import mib

TITLE = "Saving a table of 5,000,000 x 64 with Adagrad's slot"
KINDS = ("keras_sparse, static", "keras_sparse, dynamic", "keras.layers.Embedding")


def make_model(kind, num_rows):
    """A compiled model of one table, its optimizer built."""
    import keras

    if kind == KINDS[2]:
        layer = keras.layers.Embedding(num_rows, DIM)
        optimizer = keras.optimizers.Adagrad(0.01)
    else:
        import keras_sparse

        layer = keras_sparse.layers.Embedding(None if kind == KINDS[1] else num_rows, DIM)
        optimizer = keras_sparse.optimizers.Adagrad(0.01)
    model = keras.Sequential([keras.Input((1,), dtype="int64"), layer])
    model.compile(optimizer, "mse")
    optimizer.build(model.trainable_variables)
    return model, layer.embeddings


def table_bytes(variable):
    """What one of our tables holds now: a dynamic one grows when it is read from a file."""
    return variable.stats()["bytes"] if hasattr(variable, "stats") else 0


def watched(function, *arguments):
    """Seconds, and the most memory over what there was before."""
    forget_peak()
    before = resident_bytes("VmRSS")
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start, resident_bytes("VmHWM") - before


def save_and_sync(model, path):
    model.save_weights(path)
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def measure_save(kind, num_rows, path):
    model, variable = make_model(kind, num_rows)
    if kind != KINDS[2]:
        ranks = np.arange(num_rows)
        keys = workloads.scramble(ranks) if kind == KINDS[1] else ranks
        touch_all(model.optimizer, variable, keys)
    return watched(save_and_sync, model, path)


def measure_load(kind, num_rows, path):
    model, variable = make_model(kind, num_rows)
    before = table_bytes(variable)
    seconds, extra = watched(model.load_weights, path)
    return seconds, extra - (table_bytes(variable) - before)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=TITLE)
    parser.add_argument("--workload-scale", type=float, default=1.0)
    options, _ = parser.parse_known_args(arguments)
    num_rows = int(5_000_000 * options.workload_scale)
    head = ["table", "file, MiB", "write, s", "extra, MiB", "read, s", "extra, MiB"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / "model.weights.h5")
            seconds, extra = in_fresh_process(measure_save, kind, num_rows, path)
            cells = [kind, mib(os.path.getsize(path)), f"{seconds:.1f}", mib(extra)]
            seconds, extra = in_fresh_process(measure_load, kind, num_rows, path)
            cells += [f"{seconds:.1f}", mib(extra)]
        lines.append("| " + " | ".join(cells) + " |")
    print(f"{TITLE}\n\n" + "\n".join(lines) + "\n", flush=True)
    return "\n".join(lines)


if __name__ == "__main__":
    main()
