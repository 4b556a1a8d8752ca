"""How long does a checkpoint take, and a second one after 1 % of the rows have changed?

    python -m benchmarks.checkpoints

A model of one dynamic table of 5,000,000 x 64 with Adagrad's slot, every row trained, over memory
alone and over memory (a tenth of the rows) and SSD. Beside it `model.save_weights` of the same
model, synced, and the floor: the bytes of the checkpoint written to one file and synced.
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
from benchmarks.process import in_fresh_process
from benchmarks.report import mib

TITLE = "Checkpoints of a table of 5,000,000 x 64 with Adagrad's slot"
STORAGE_TYPES = ("DRAM", "DRAM_SSDHASH")
CHANGED_SHARE = 100
_WRITE_BYTES = 16 << 20


def make_model(storage_type, num_rows, folder):
    """A compiled model of one table, its optimizer built."""
    import keras

    import keras_sparse

    storage = None
    if storage_type == "DRAM_SSDHASH":
        sizes = [num_rows * 8 * DIM // 10, 4 * num_rows * 8 * DIM]
        storage = keras_sparse.StorageOption(
            storage_type, storage_path=f"{folder}/tiers", storage_size=sizes
        )
    layer = keras_sparse.layers.Embedding(None, DIM, storage=storage)
    optimizer = keras_sparse.optimizers.Adagrad(0.01)
    model = keras.Sequential([keras.Input((1,), dtype="int64"), layer])
    model.compile(optimizer, "mse")
    optimizer.build(model.trainable_variables)
    return model, layer.embeddings


def seconds_of(function, *arguments, **keywords):
    start = time.perf_counter()
    function(*arguments, **keywords)
    return time.perf_counter() - start


def save_and_sync(model, path):
    model.save_weights(path)
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def write_and_sync(path, num_bytes):
    """The floor: as many bytes, in pieces as large as the checkpoint's."""
    piece = np.random.default_rng(0).bytes(_WRITE_BYTES)
    with open(path, "wb") as file:
        for _ in range(num_bytes // _WRITE_BYTES):
            file.write(piece)
        os.fsync(file.fileno())


def new_bytes(folder):
    """Bytes of the files that no other folder has."""
    stats = [path.stat() for path in pathlib.Path(folder).iterdir()]
    return sum(stat.st_size for stat in stats if stat.st_nlink == 1)


def measure_saves(storage_type, num_rows, folder):
    """Seconds of each save, and the bytes that the checkpoints have written."""
    from keras_sparse import saving

    model, variable = make_model(storage_type, num_rows, folder)
    keys = workloads.scramble(np.arange(num_rows))
    touch_all(model.optimizer, variable, keys)
    seconds = {"weights": seconds_of(save_and_sync, model, f"{folder}/model.weights.h5")}
    os.remove(f"{folder}/model.weights.h5")
    seconds["first"] = seconds_of(saving.save_checkpoint, model, f"{folder}/first", verbose=False)
    num_bytes = {"first": sum(p.stat().st_size for p in pathlib.Path(folder, "first").iterdir())}
    seconds["floor"] = seconds_of(write_and_sync, f"{folder}/floor", num_bytes["first"])
    os.remove(f"{folder}/floor")
    rng = np.random.default_rng(1)
    for name, save in (("second", saving.save_checkpoint), ("delta", saving.save_delta)):
        changed = rng.choice(keys, num_rows // CHANGED_SHARE, replace=False)
        touch_all(model.optimizer, variable, changed)
        seconds[name] = seconds_of(save, model, f"{folder}/{name}", verbose=False)
        num_bytes[name] = new_bytes(f"{folder}/{name}")
    return seconds, num_bytes


def measure_load(storage_type, num_rows, folder):
    """Seconds to read the second checkpoint into a new model, in a new process."""
    from keras_sparse import saving

    model, _ = make_model(storage_type, num_rows, folder)
    return seconds_of(saving.load_checkpoint, model, f"{folder}/second", verbose=False)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=TITLE)
    parser.add_argument("--workload-scale", type=float, default=1.0)
    parser.add_argument("--folder", default=None, help="where the files go")
    options, _ = parser.parse_known_args(arguments)
    num_rows = int(5_000_000 * options.workload_scale)
    head = ["tiers", "save_weights, s", "first, s", "floor, s", "first, MiB"]
    head += ["second, s", "share of first", "second, MiB", "delta, s", "delta, MiB", "load, s"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for storage_type in STORAGE_TYPES:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            seconds, num_bytes = in_fresh_process(measure_saves, storage_type, num_rows, folder)
            loaded = in_fresh_process(measure_load, storage_type, num_rows, folder)
        cells = [storage_type, f"{seconds['weights']:.1f}", f"{seconds['first']:.1f}"]
        cells += [f"{seconds['floor']:.1f}", mib(num_bytes["first"]), f"{seconds['second']:.2f}"]
        cells += [f"{100 * seconds['second'] / seconds['first']:.1f} %", mib(num_bytes["second"])]
        cells += [f"{seconds['delta']:.2f}", mib(num_bytes["delta"]), f"{loaded:.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    print(f"{TITLE}\n\n" + "\n".join(lines) + "\n", flush=True)
    return "\n".join(lines)


if __name__ == "__main__":
    main()
