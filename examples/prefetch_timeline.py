"""When a training step waits for cold rows, without `prefetch_lookups` and with both of its modes.

    python examples/prefetch_timeline.py [--picture FILE.svg] [--json FILE.json] [--direct]

A click model whose table is mostly on disk is trained for some steps under TensorFlow's profiler:
without the stage, with it, and with rows that may be stale. The picture shows when the ops of the
steps ran, and the work of the stage beside them. With `--direct` the files are read past the page
cache, as those of a table would be that is larger than the machine's memory.
"""

import argparse
import json
import os
import pathlib
import tempfile

import keras
import matplotlib
import numpy as np
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

import keras_sparse

matplotlib.use("Agg")  # writes files, needs no display

from matplotlib import pyplot

WAYS = ("off", "exact", "stale")
IDS_A_SAMPLE, DIM = 8, 64
NUM_STEPS = 8
# What a row of the picture shows: the events whose names have these words.
ROWS = {"stage": "StageLookup", "lookup": "KerasSparseLookup", "update": "KerasSparseApply"}
COLORS = {"stage": "#2a9d8f", "lookup": "#e76f51", "dense": "#8d99ae", "update": "#264653"}


def make_model(folder, num_rows):
    ids = keras.Input((IDS_A_SAMPLE,), dtype="int64")
    bytes_a_row = 2 * 4 * DIM + 30  # with Adagrad's accumulator, key and index
    sizes = [num_rows // 10 * bytes_a_row, 4 * num_rows * bytes_a_row + (64 << 20)]
    storage = keras_sparse.StorageOption("DRAM_SSDHASH", folder, sizes)
    hidden = keras_sparse.layers.Embedding(None, DIM, storage=storage, name="items")(ids)
    hidden = keras.layers.Flatten()(hidden)
    for units in (1024, 512, 256):
        hidden = keras.layers.Dense(units, activation="relu")(hidden)
    model = keras.Model(ids, keras.layers.Dense(1, activation="sigmoid")(hidden))
    model.compile(keras_sparse.optimizers.Adagrad(0.01), loss="binary_crossentropy")
    model.optimizer.build(model.trainable_variables)
    return model


def make_batches(num_rows, batch_size, seed):
    random = np.random.default_rng(seed)
    samples = 3 * NUM_STEPS * batch_size  # before, in, and after those that are shown
    ids = random.integers(0, num_rows, (samples, IDS_A_SAMPLE))
    labels = random.integers(0, 2, (samples, 1)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((ids, labels)).batch(batch_size)


def trace(model, batches, folder):
    """Trains for two epochs, the second one under the profiler, with batches still to come.

    Returns:
        The events of each row: lists of (begin, end) in ms.
    """

    def start(epoch, logs):
        if epoch == 1:
            tf.profiler.experimental.start(str(folder))

    profile = keras.callbacks.LambdaCallback(on_epoch_begin=start)
    model.fit(
        batches, epochs=2, steps_per_epoch=NUM_STEPS, verbose=0, callbacks=[profile], shuffle=False
    )
    tf.profiler.experimental.stop()
    space = xplane_pb2.XSpace()
    (path,) = pathlib.Path(folder).rglob("*.xplane.pb")
    space.ParseFromString(path.read_bytes())
    (plane,) = (plane for plane in space.planes if plane.name == "/host:CPU")
    events = {name: [] for name in COLORS}
    for line in plane.lines:
        for event in line.events:
            row = row_of(plane.event_metadata[event.metadata_id].name)
            if row is not None:
                begin = line.timestamp_ns / 1e6 + event.offset_ps / 1e9
                events[row].append((begin, begin + event.duration_ps / 1e9))
    first = min(begin for each in events.values() for begin, _ in each)
    return {row: [(b - first, e - first) for b, e in each] for row, each in events.items()}


def row_of(name):
    """The row of the picture that an event belongs to, or `None`."""
    for row, words in ROWS.items():
        if name.endswith(words) or f"{words}#" in name:
            return row
    return "dense" if "MatMul" in name and ":" in name else None


def draw(traces, path):
    figure, panels = pyplot.subplots(len(traces), sharex=True, figsize=(9, 5))
    for panel, (way, events) in zip(panels, traces.items(), strict=True):
        for place, (row, spans) in enumerate(reversed(events.items())):
            bars = [(begin, end - begin) for begin, end in spans]
            panel.broken_barh(bars, (place - 0.4, 0.8), color=COLORS[row])
        panel.set_yticks(range(len(events)), list(reversed(events)))
        panel.set_title(f"{way}: {duration(events):.0f} ms", loc="left", fontsize=10)
        panel.spines[["top", "right"]].set_visible(False)
    panels[-1].set_xlabel(f"ms, {NUM_STEPS} steps")
    figure.tight_layout()
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot.close(figure)


def duration(events):
    """Of the steps; the stage goes on for those to come."""
    return max(end for _, end in events["update"])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--picture", default="prefetch_timeline.svg")
    parser.add_argument("--json", type=pathlib.Path, help="write the spans of events, in ms")
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--direct", action="store_true", help="read past the page cache")
    options = parser.parse_args(arguments)
    if options.direct:
        os.environ["KERAS_SPARSE_SSDHASH_DIRECT_IO"] = "1"  # for tables made from here on
    traces = {}
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(f"{folder}/rows", options.rows)
        table = model.get_layer("items").embeddings
        table.import_(np.arange(options.rows), np.zeros((options.rows, DIM), np.float32))
        for seed, way in enumerate(("off", *WAYS)):  # the first time for its traces of functions
            batches = make_batches(options.rows, options.batch_size, seed)
            if way != "off":
                batches = keras_sparse.data.prefetch_lookups(batches, model, 2, 4, way)
            traces[way] = trace(model, batches, pathlib.Path(folder, f"{seed}"))
    for way, events in traces.items():
        print(f"{way:6} {duration(events):8.1f} ms for {NUM_STEPS} steps")
    print(table.stats()["prefetch"])
    draw(traces, options.picture)
    if options.json:
        options.json.write_text(json.dumps(traces))
    print(f"Picture: {options.picture}")
    return traces


if __name__ == "__main__":
    main()
