"""How long does a table take to become a SavedModel, and that to answer a request?

    python -m benchmarks.serving
    python -m benchmarks.serving --workload-scale 8 --storage DRAM_SSDHASH --only dynamic  # 10 GB

A model of one table of 64 columns, every row trained, exported by `model.export`, then loaded by a
process of TensorFlow alone; beside a `keras.layers.Embedding` of as many rows that is exported and
loaded in the same way. A request pools the rows of 26 ids of a power law for each sample. `extra`
is the most memory of its own (not of files) that the exporting process has over what it had before.
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
from benchmarks.process import mib
from benchmarks.process import resident_bytes

TITLE = "Serving a table of 5,000,000 x 64 by TensorFlow alone"
STATIC, DYNAMIC, UNSEEN, KERAS = (
    "keras_sparse, static",
    "keras_sparse, dynamic",
    "the same, every 100th id without a row",
    "keras.layers.Embedding",
)
HOTNESS = 26
BATCHES = (1, 512)
REPEATS = 101


def make_model(kind, num_rows, storage, folder):
    """A model that pools the rows of a table, each of which has had a gradient."""
    import keras

    import keras_sparse

    ids = keras.Input((HOTNESS,), dtype="int64")
    if kind == KERAS:
        rows = keras.ops.sum(keras.layers.Embedding(num_rows, DIM)(ids), axis=1)
        return keras.Model(ids, rows)
    option = None
    if kind == DYNAMIC and storage != "DRAM":
        sizes = ["1GB", "64GB"]
        option = keras_sparse.StorageOption(storage, storage_path=folder, storage_size=sizes)
    layer = keras_sparse.layers.Embedding(
        num_rows if kind == STATIC else None, DIM, "sum", storage=option
    )
    model = keras.Model(ids, layer(ids))
    optimizer = keras_sparse.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)
    touch_all(optimizer, layer.embeddings, keys_of(kind, np.arange(num_rows)))
    return model


def keys_of(kind, ranks):
    return workloads.scramble(ranks) if kind in (DYNAMIC, UNSEEN) else ranks


def measure_export(kind, num_rows, storage, folder):
    """Seconds, and the most private memory over what there was before."""
    with tempfile.TemporaryDirectory(dir=pathlib.Path(folder).parent) as rows:
        model = make_model(kind, num_rows, storage, rows)
        before, most, done = resident_bytes(), [0], threading.Event()

        def watch():
            while not done.wait(0.02):
                most[0] = max(most[0], resident_bytes())

        watcher = threading.Thread(target=watch)
        watcher.start()
        start = time.perf_counter()
        model.export(folder, verbose=False)
        seconds = time.perf_counter() - start
        done.set()
        watcher.join()
    return seconds, max(0, most[0] - before)


def measure_requests(kind, num_rows, folder):
    """Seconds to load, memory of that, and the median seconds of a request of each size."""
    import tensorflow as tf

    before = resident_bytes()
    start = time.perf_counter()
    model = tf.saved_model.load(folder)
    serve = model.signatures["serving_default"]
    (name,) = serve.structured_input_signature[1]
    loaded = time.perf_counter() - start, resident_bytes() - before
    rng = np.random.default_rng(workloads.SEED)
    medians = []
    for batch_size in BATCHES:
        times = []
        for _ in range(REPEATS):
            ranks = workloads.zipf_ranks(rng, num_rows, (batch_size, HOTNESS))
            if kind == UNSEEN:
                ranks.flat[::100] += num_rows
            request = tf.constant(keys_of(kind, ranks))
            start = time.perf_counter()
            serve(**{name: request})
            times.append(time.perf_counter() - start)
        medians.append(statistics.median(times[1:]))
    return loaded, medians


def main(arguments=None):
    parser = argparse.ArgumentParser(description=TITLE)
    parser.add_argument("--workload-scale", type=float, default=1.0)
    parser.add_argument("--storage", default="DRAM", help="of the dynamic table")
    kinds = {"static": STATIC, "dynamic": DYNAMIC, "keras": KERAS}
    help_of_only = "tables; of Keras' a process that serves takes twice the memory of its rows"
    parser.add_argument("--only", nargs="+", choices=kinds, default=[*kinds], help=help_of_only)
    options, _ = parser.parse_known_args(arguments)
    num_rows = int(5_000_000 * options.workload_scale)
    head = ["table", "files, MiB", "export, s", "extra, MiB", "load, s", "MiB loaded"]
    head += [f"request of {size}, ms" for size in BATCHES]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for kind in map(kinds.get, options.only):
        with tempfile.TemporaryDirectory() as parent:
            folder = str(pathlib.Path(parent) / "model")
            seconds, extra = in_fresh_process(
                measure_export, kind, num_rows, options.storage, folder
            )
            files = [each.stat().st_size for each in pathlib.Path(folder).rglob("*")]
            export = [mib(sum(files)), f"{seconds:.1f}", mib(extra)]
            for served in (DYNAMIC, UNSEEN) if kind == DYNAMIC else (kind,):
                loaded, medians = in_fresh_process(measure_requests, served, num_rows, folder)
                cells = [served, *export, f"{loaded[0]:.1f}", mib(loaded[1])]
                cells += [f"{1000 * median:.2f}" for median in medians]
                lines.append("| " + " | ".join(cells) + " |")
                export = ["", "", ""]
    print(f"{TITLE}\n\n" + "\n".join(lines) + "\n", flush=True)
    return "\n".join(lines)


if __name__ == "__main__":
    main()
