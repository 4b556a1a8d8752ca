"""How long does a table take to become a SavedModel, and that to answer a request?

    python -m benchmarks.serving
    python -m benchmarks.serving --workload-scale 8 --storage DRAM_SSDHASH --only dynamic  # 10 GB
    python -m benchmarks.serving --tables 26 200  # many small tables

A model of one table of 64 columns, every row trained, exported by `model.export`, then loaded by a
process of TensorFlow alone; beside a `keras.layers.Embedding` of as many rows that is exported and
loaded in the same way. A request pools the rows of 26 ids of a power law for each sample. `extra`
is the most memory of its own (not of files) that the exporting process has over what it had before.

With `--tables` it is a model of many tables of 16 columns, one id for each in a sample, beside one
of as many `keras.layers.Embedding`. Requests go to the models by turns.
"""

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
from benchmarks.process import resident_bytes
from benchmarks.report import markdown
from benchmarks.report import mib
from benchmarks.report import options_of
from benchmarks.report import show
from benchmarks.saving import DYNAMIC
from benchmarks.saving import HOTNESS
from benchmarks.saving import KERAS
from benchmarks.saving import seconds_of
from benchmarks.saving import STATIC

TITLE = "Serving a table of 5,000,000 x 64 by TensorFlow alone"
UNSEEN = "the same, every 100th id without a row"
KINDS = {"static": STATIC, "dynamic": DYNAMIC, "keras": KERAS}
BATCHES = (1, 512)
REPEATS = 101
TABLE_ROWS, TABLE_DIM = 1000, 16


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
        seconds = seconds_of(model.export, folder, verbose=False)
        done.set()
        watcher.join()
    return seconds, max(0, most[0] - before)


def measure_requests(kind, num_rows, folder):
    """Seconds to load, memory of that, and the median seconds of a request of each size."""
    import tensorflow as tf

    before, start = resident_bytes(), time.perf_counter()
    model = tf.saved_model.load(folder)
    loaded = time.perf_counter() - start, resident_bytes() - before
    rng = np.random.default_rng(workloads.SEED)
    medians = []
    for batch_size in BATCHES:

        def draw(size=batch_size):
            return workloads.zipf_ranks(rng, num_rows, (size, HOTNESS))

        medians.append(request_by_turns({kind: model}, draw, num_rows)[kind])
    return loaded, medians


def make_model_of_tables(kind, num_tables):
    """A model that joins a row of each of many tables, each of which has 1000 rows."""
    import keras

    import keras_sparse

    ids = keras.Input((num_tables,), dtype="int64")
    if kind == KERAS:
        columns = [ids[:, i] for i in range(num_tables)]
        rows = [keras.layers.Embedding(TABLE_ROWS, TABLE_DIM)(each) for each in columns]
        return keras.Model(ids, keras.layers.Concatenate()(rows))
    size = TABLE_ROWS if kind == STATIC else None
    layers = [keras_sparse.layers.Embedding(size, TABLE_DIM, "sum") for _ in range(num_tables)]
    model = keras.Model(ids, keras_sparse.layers.GroupEmbedding(layers, output_mode="concat")(ids))
    for table in model.trainable_variables if kind == DYNAMIC else []:
        keys = keys_of(kind, np.arange(TABLE_ROWS))
        table.import_(keys, np.ones((TABLE_ROWS, TABLE_DIM), np.float32))
    return model


def measure_tables(num_tables):
    """Of each kind: seconds to export, nodes a table, seconds to load, those of requests."""
    import tensorflow as tf
    from tensorflow.core.protobuf import saved_model_pb2

    kinds = (KERAS, STATIC, DYNAMIC)
    results, served = {kind: [] for kind in (*kinds, UNSEEN)}, {}
    with tempfile.TemporaryDirectory() as parent:
        for number, kind in enumerate((KERAS, *kinds)):  # the first one warms up
            folder = f"{parent}/{number}"
            model = make_model_of_tables(kind, num_tables)
            exported = seconds_of(model.export, folder, verbose=False)
            proto = saved_model_pb2.SavedModel()
            proto.ParseFromString(pathlib.Path(folder, "saved_model.pb").read_bytes())
            graph = proto.meta_graphs[0].graph_def
            nodes = len(graph.node) + sum(len(each.node_def) for each in graph.library.function)
            start = time.perf_counter()
            served[kind] = tf.saved_model.load(folder)
            results[kind] = [exported, nodes / num_tables, time.perf_counter() - start]
        served[UNSEEN] = served[DYNAMIC]
        rng = np.random.default_rng(workloads.SEED)
        for batch_size in BATCHES:

            def draw(size=batch_size):
                return rng.integers(0, TABLE_ROWS, (size, num_tables))

            for kind, seconds in request_by_turns(served, draw, TABLE_ROWS).items():
                results[kind].append(seconds)
    return results


def request_by_turns(served, draw, num_rows):
    """Median seconds of a request to each model, all of the same ranks.

    Another model begins each turn, as the first one finds the processor's caches cold.
    """
    import tensorflow as tf

    times, order = {kind: [] for kind in served}, list(served)
    for _ in range(REPEATS):
        ranks = draw()
        order.append(order.pop(0))
        for kind in order:
            asked = ranks.copy()
            if kind == UNSEEN:
                asked.flat[::100] += num_rows
            request = tf.constant(keys_of(kind, asked))
            times[kind].append(seconds_of(served[kind].signatures["serving_default"], request))
    return {kind: statistics.median(each[1:]) for kind, each in times.items()}


def rows_of_tables(number):
    """The lines of models of that number of tables."""
    results, rows = in_fresh_process(measure_tables, number), []
    peer = results[KERAS]
    for kind, (*exported, one, many) in results.items():
        cells = [str(number), kind, *[""] * 4]
        if exported:
            seconds, nodes, loaded = exported
            cells[2:] = [f"{seconds:.2f}", f"{seconds / peer[0]:.2f}"]
            cells += [f"{nodes:.0f}", f"{loaded:.2f}"]
        for seconds, of_peer in ((one, peer[-2]), (many, peer[-1])):
            cells += [f"{1000 * seconds:.2f}", f"{seconds / of_peer:.2f}"]
        rows.append(cells)
    return rows


def rows_of_table(kind, num_rows, storage):
    """The lines of a model of one table, perhaps of two kinds of requests."""
    rows = []
    with tempfile.TemporaryDirectory() as parent:
        folder = str(pathlib.Path(parent) / "model")
        seconds, extra = in_fresh_process(measure_export, kind, num_rows, storage, folder)
        export = [mib(bytes_of(folder)), f"{seconds:.1f}", mib(extra)]
        for served in (DYNAMIC, UNSEEN) if kind == DYNAMIC else (kind,):
            loaded, medians = in_fresh_process(measure_requests, served, num_rows, folder)
            cells = [served, *export, f"{loaded[0]:.1f}", mib(loaded[1])]
            rows.append([*cells, *(f"{1000 * median:.2f}" for median in medians)])
            export = ["", "", ""]
    return rows


def bytes_of(folder):
    return sum(each.stat().st_size for each in pathlib.Path(folder).rglob("*"))


def main(arguments=None):
    options = options_of(
        __doc__,
        arguments,
        workload_scale=1.0,
        storage="DRAM",
        only=tuple(KINDS),
        tables=(0,),
    )
    num_rows = int(5_000_000 * options.workload_scale)
    kinds = [KINDS[name] for name in options.only]
    requests = [f"request of {size}, ms" for size in BATCHES]
    if any(options.tables):
        head = ["tables", "of", "export, s", "to Keras", "nodes a table", "load, s"]
        head += [cell for request in requests for cell in (request, "to Keras")]
        rows = [row for number in options.tables for row in rows_of_tables(number)]
    else:
        head = ["table", "files, MiB", "export, s", "extra, MiB", "load, s", "MiB loaded"]
        head += requests
        rows = [row for kind in kinds for row in rows_of_table(kind, num_rows, options.storage)]
    return show(TITLE, markdown(head, rows))


if __name__ == "__main__":
    main()
