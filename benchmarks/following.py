"""How long does a model that answers requests take to come to a later state of its training?

    python -m benchmarks.following
    python -m benchmarks.following --workload-scale 0.1

A dynamic table of 64 columns, every row trained with Adagrad and saved. A second model without an
optimizer loads it and answers: a request pools the rows of 26 ids of a power law for each of 512
samples. A part of the rows is trained on and saved as a delta, which `apply_delta` brings to the
second model in place, while requests go on. `load` is `load_checkpoint` of that delta: it reads all
rows. `usual` and `longest` are requests while the delta comes.
"""

import argparse
import pathlib
import statistics
import tempfile
import threading
import time

import numpy as np

from benchmarks import workloads
from benchmarks.memory import DIM
from benchmarks.memory import touch_all
from benchmarks.process import in_fresh_process
from benchmarks.report import mib
from benchmarks.serving import HOTNESS

TITLE = "Following the training of a table of 5,000,000 x 64"
SHARES = (0.001, 0.01, 0.1)
SAMPLES = 512


def make_model():
    import keras

    import keras_sparse

    ids = keras.Input((HOTNESS,), dtype="int64")
    return keras.Model(ids, keras_sparse.layers.Embedding(None, DIM, "sum", name="rows")(ids))


def measure(num_rows):
    """Returns a tuple for each share of changed rows: see `main`."""
    import tensorflow as tf

    import keras_sparse

    keys = workloads.scramble(np.arange(num_rows))
    trained, served = make_model(), make_model()
    trained.compile(keras_sparse.optimizers.Adagrad(0.1))
    trained.optimizer.build(trained.trainable_variables)
    table = trained.get_layer("rows").embeddings
    touch_all(trained.optimizer, table, keys)
    rng = np.random.default_rng(workloads.SEED)
    request = tf.constant(
        workloads.scramble(workloads.zipf_ranks(rng, num_rows, (SAMPLES, HOTNESS)))
    )
    answer = tf.function(served)
    answer(request)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        keras_sparse.saving.save_checkpoint(trained, folder / "first", verbose=False)
        keras_sparse.saving.load_checkpoint(served, folder / "first", verbose=False)
        for share in SHARES:
            touch_all(trained.optimizer, table, rng.permutation(keys)[: int(share * num_rows)])
            path = keras_sparse.saving.save_delta(trained, folder / f"{share}", verbose=False)
            size = sum(each.stat().st_size for each in path.iterdir())
            seconds, times = _apply(served, path, lambda: answer(request))
            start = time.perf_counter()
            keras_sparse.saving.load_checkpoint(served, path, verbose=False)
            load = time.perf_counter() - start
            found.append((share, size, seconds, load, statistics.median(times), max(times)))
    return found


def _apply(model, path, ask):
    """Returns the seconds that a delta takes, and those of each request meanwhile."""
    import keras_sparse

    times, is_done = [], threading.Event()

    def ask_on():
        while not is_done.is_set():
            start = time.perf_counter()
            ask()
            times.append(time.perf_counter() - start)

    thread = threading.Thread(target=ask_on)
    thread.start()
    start = time.perf_counter()
    keras_sparse.serving.apply_delta(model, path, verbose=False)
    seconds = time.perf_counter() - start
    is_done.set()
    thread.join()
    return seconds, times


def main(arguments=None):
    parser = argparse.ArgumentParser(description=TITLE)
    parser.add_argument("--workload-scale", type=float, default=1.0)
    options, _ = parser.parse_known_args(arguments)
    num_rows = int(5_000_000 * options.workload_scale)
    head = ["rows changed", "delta, MiB", "apply_delta, s", "load, s"]
    head += ["usual request, ms", "longest, ms"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for share, size, seconds, load, usual, longest in in_fresh_process(measure, num_rows):
        cells = [f"{share:.1%}", mib(size), f"{seconds:.2f}", f"{load:.1f}"]
        cells += [f"{1000 * usual:.1f}", f"{1000 * longest:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    print(f"{TITLE}\n\n" + "\n".join(lines) + "\n", flush=True)
    return "\n".join(lines)


if __name__ == "__main__":
    main()
