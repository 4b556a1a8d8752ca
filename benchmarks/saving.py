"""How long does a trained table take to be saved, read again, and followed by another model?

    python -m benchmarks.saving [--parts files checkpoints following] [--workload-scale 0.1]

A table of 5,000,000 x 64 with Adagrad's slot, every row trained. Files are synced by the clock.

files: `.weights.h5`, beside a `keras.layers.Embedding`. `extra` is the highest memory of the
process over what it held before, less what the table itself grew by.

checkpoints: of memory alone and of memory (a tenth of the rows) and SSD; the second one, and a
delta, after 1 % of the rows have changed. Beside them `save_weights` of the same model, and the
floor: the bytes of the checkpoint written to one file.

following: a second model without an optimizer answers: a request pools the rows of 26 ids of a
power law for each of 512 samples. A part of the rows is trained on and saved as a delta, which
`apply_delta` brings to that model in place, while requests go on: `usual` and `longest` are these.
`load` is `load_checkpoint` of the delta, which reads all rows.
"""

import os
import pathlib
import statistics
import tempfile
import threading
import time

import numpy as np

from benchmarks import workloads
from benchmarks.memory import DIM
from benchmarks.memory import touch_all
from benchmarks.process import forget_peak
from benchmarks.process import in_fresh_process
from benchmarks.process import resident_bytes
from benchmarks.report import markdown
from benchmarks.report import mib
from benchmarks.report import options_of
from benchmarks.report import show

TITLE = "Saving a table of 5,000,000 x 64 with Adagrad's slot"
STATIC, DYNAMIC, KERAS = "keras_sparse, static", "keras_sparse, dynamic", "keras.layers.Embedding"
STORAGE_TYPES = ("DRAM", "DRAM_SSDHASH")
SHARES = (0.001, 0.01, 0.1)
HOTNESS, SAMPLES = 26, 512
WRITE_BYTES = 16 << 20


def make_model(kind, num_rows, storage=None, has_optimizer=True):
    """A model of one table, and that table; with its optimizer built, if it has one."""
    import keras

    import keras_sparse

    ids = keras.Input((HOTNESS,), dtype="int64")
    if kind == KERAS:
        layer, optimizer = keras.layers.Embedding(num_rows, DIM), keras.optimizers.Adagrad(0.01)
    else:
        num_rows = num_rows if kind == STATIC else None
        layer = keras_sparse.layers.Embedding(num_rows, DIM, "sum", storage=storage, name="rows")
        optimizer = keras_sparse.optimizers.Adagrad(0.01)
    model = keras.Model(ids, layer(ids))
    if has_optimizer:
        model.compile(optimizer, "mse")
        optimizer.build(model.trainable_variables)
    return model, layer.embeddings


def make_trained(kind, num_rows, storage=None):
    """The same, all of its rows trained, and their keys."""
    model, variable = make_model(kind, num_rows, storage)
    keys = np.arange(num_rows)
    if kind == DYNAMIC:
        keys = workloads.scramble(keys)
    if kind != KERAS:
        touch_all(model.optimizer, variable, keys)
    return model, variable, keys


def seconds_of(function, *arguments, **keywords):
    start = time.perf_counter()
    function(*arguments, **keywords)
    return time.perf_counter() - start


def watched(function, *arguments):
    """Seconds, and the most memory over what there was before."""
    forget_peak()
    before = resident_bytes("VmRSS")
    return seconds_of(function, *arguments), resident_bytes("VmHWM") - before


def save_and_sync(model, path):
    model.save_weights(path)
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def measure_write(kind, num_rows, path):
    return watched(save_and_sync, make_trained(kind, num_rows)[0], path)


def measure_read(kind, num_rows, path):
    model, variable = make_model(kind, num_rows)

    def table_bytes():
        """The contents of a table of ours: a dynamic table grows when it is read from a file."""
        return variable.stats()["bytes"] if kind != KERAS else 0

    before = table_bytes()
    seconds, extra = watched(model.load_weights, path)
    return seconds, extra - (table_bytes() - before)


def files(num_rows, folder):
    rows = []
    for kind in (STATIC, DYNAMIC, KERAS):
        path = f"{folder}/model.weights.h5"
        written = in_fresh_process(measure_write, kind, num_rows, path)
        read = in_fresh_process(measure_read, kind, num_rows, path)
        cells = [text for s, extra in (written, read) for text in (f"{s:.1f}", mib(extra))]
        rows.append([kind, mib(os.path.getsize(path)), *cells])
    return markdown(["table", "file, MiB", "write, s", "extra, MiB", "read, s", "extra, MiB"], rows)


def make_storage(storage_type, num_rows, folder):
    import keras_sparse

    if storage_type == "DRAM":
        return None
    sizes = [num_rows * 8 * DIM // 10, 4 * num_rows * 8 * DIM]
    return keras_sparse.StorageOption(storage_type, f"{folder}/tiers", sizes)


def write_and_sync(path, num_bytes):
    """The floor: as many bytes, in pieces as large as the checkpoint's."""
    piece = np.random.default_rng(0).bytes(WRITE_BYTES)
    with open(path, "wb") as file:
        for _ in range(num_bytes // WRITE_BYTES):
            file.write(piece)
        os.fsync(file.fileno())


def new_bytes(folder):
    """Bytes of the files that no other folder has."""
    stats = [path.stat() for path in pathlib.Path(folder).iterdir()]
    return sum(stat.st_size for stat in stats if stat.st_nlink == 1)


def measure_saves(storage_type, num_rows, folder):
    """Seconds of each save, and the bytes that the checkpoints have written."""
    from keras_sparse import saving

    storage = make_storage(storage_type, num_rows, folder)
    model, variable, keys = make_trained(DYNAMIC, num_rows, storage)
    seconds = {"weights": seconds_of(save_and_sync, model, f"{folder}/model.weights.h5")}
    os.remove(f"{folder}/model.weights.h5")
    seconds["first"] = seconds_of(saving.save_checkpoint, model, f"{folder}/first", verbose=False)
    num_bytes = {
        "first": sum(path.stat().st_size for path in pathlib.Path(folder, "first").iterdir())
    }
    seconds["floor"] = seconds_of(write_and_sync, f"{folder}/floor", num_bytes["first"])
    os.remove(f"{folder}/floor")
    rng = np.random.default_rng(1)
    for name, save in (("second", saving.save_checkpoint), ("delta", saving.save_delta)):
        touch_all(model.optimizer, variable, rng.choice(keys, num_rows // 100, replace=False))
        seconds[name] = seconds_of(save, model, f"{folder}/{name}", verbose=False)
        num_bytes[name] = new_bytes(f"{folder}/{name}")
    return seconds, num_bytes


def measure_load(storage_type, num_rows, folder):
    """Seconds to read the second checkpoint into a new model, in a new process."""
    from keras_sparse import saving

    model, _ = make_model(DYNAMIC, num_rows, make_storage(storage_type, num_rows, folder))
    return seconds_of(saving.load_checkpoint, model, f"{folder}/second", verbose=False)


def checkpoints(num_rows, parent):
    rows = []
    for storage_type in STORAGE_TYPES:
        with tempfile.TemporaryDirectory(dir=parent) as folder:
            seconds, num_bytes = in_fresh_process(measure_saves, storage_type, num_rows, folder)
            seconds["load"] = in_fresh_process(measure_load, storage_type, num_rows, folder)
        share = f"{100 * seconds['second'] / seconds['first']:.1f} %"
        took = {name: f"{each:.2f}" for name, each in seconds.items()}
        cells = [storage_type, took["weights"], took["first"], took["floor"]]
        cells += [mib(num_bytes["first"]), took["second"], share, mib(num_bytes["second"])]
        rows.append([*cells, took["delta"], mib(num_bytes["delta"]), took["load"]])
    head = ["tiers", "save_weights, s", "first, s", "floor, s", "first, MiB"]
    head += ["second, s", "share of first", "second, MiB", "delta, s", "delta, MiB", "load, s"]
    return markdown(head, rows)


def measure_following(num_rows, folder):
    """Returns the cells of each share of changed rows."""
    import tensorflow as tf

    from keras_sparse import saving

    trained, variable, keys = make_trained(DYNAMIC, num_rows)
    served, _ = make_model(DYNAMIC, num_rows, has_optimizer=False)
    saving.save_checkpoint(trained, f"{folder}/first", verbose=False)
    saving.load_checkpoint(served, f"{folder}/first", verbose=False)
    rng = np.random.default_rng(workloads.SEED)
    ranks = workloads.zipf_ranks(rng, num_rows, (SAMPLES, HOTNESS))
    request, answer = tf.constant(workloads.scramble(ranks)), tf.function(served)
    answer(request)
    rows = []
    for share in SHARES:
        touch_all(trained.optimizer, variable, rng.permutation(keys)[: int(share * num_rows)])
        path = saving.save_delta(trained, f"{folder}/{share}", verbose=False)
        size = sum(each.stat().st_size for each in path.iterdir())
        seconds, times = apply_delta(served, path, lambda: answer(request))
        load = seconds_of(saving.load_checkpoint, served, path, verbose=False)
        cells = [f"{share:.1%}", mib(size), f"{seconds:.2f}", f"{load:.1f}"]
        rows.append([*cells, f"{1e3 * statistics.median(times):.1f}", f"{1e3 * max(times):.0f}"])
    return rows


def apply_delta(model, path, ask):
    """Returns the seconds that a delta takes, and those of each request meanwhile."""
    import keras_sparse

    times, is_done = [], threading.Event()

    def ask_on():
        while not is_done.is_set():
            times.append(seconds_of(ask))

    thread = threading.Thread(target=ask_on)
    thread.start()
    seconds = seconds_of(keras_sparse.serving.apply_delta, model, path, verbose=False)
    is_done.set()
    thread.join()
    return seconds, times


def following(num_rows, folder):
    head = ["rows changed", "delta, MiB", "apply_delta, s", "load, s"]
    head += ["usual request, ms", "longest, ms"]
    return markdown(head, in_fresh_process(measure_following, num_rows, folder))


PARTS = {"files": files, "checkpoints": checkpoints, "following": following}


def main(arguments=None):
    options = options_of(__doc__, arguments, parts=tuple(PARTS), workload_scale=1.0, folder=None)
    num_rows, texts = int(5_000_000 * options.workload_scale), []
    for part in options.parts:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            texts.append(f"{part}:\n\n{PARTS[part](num_rows, folder)}")
    return show(TITLE, "\n\n".join(texts))


if __name__ == "__main__":
    main()
