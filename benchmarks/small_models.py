"""What does a step of a small model cost, whatever its tables hold?

    python -m benchmarks.small_models [--tables 26] [--batch-size 32] [--rounds 7] [--steps 256]

A matrix of ids comes in, and the rows of all tables go side by side into one dense unit; Adagrad,
through `model.fit`. With so few samples a step is what Python and TensorFlow take around the work.
`in one execution` is `compile(steps_per_execution=32)`. `one call` is the compiled step called in a
loop, with a batch that is there already: what `fit` takes more is its Python and its dataset. `in
our ops` is what TensorFlow's profiler says of the ops of tables. A model without tables is the
floor.
"""

import functools
import glob
import os
import statistics
import tempfile
import time

import numpy as np

from benchmarks import workloads
from benchmarks.process import environment_of
from benchmarks.process import in_fresh_process
from benchmarks.report import markdown
from benchmarks.report import options_of
from benchmarks.report import show
from benchmarks.timing import rotated

TITLE = "A small model, microseconds a step"
INPUT_DIM, OUTPUT_DIM = 1000, 16
STEPS_AT_ONCE = 32
NONE, KERAS, OURS, GROUP, JOINED = (
    "no tables",
    "keras.layers.Embedding each",
    "keras_sparse.layers.Embedding each",
    "keras_sparse.layers.GroupEmbedding",
    'GroupEmbedding, output_mode="concat"',
)
WAYS = (NONE, KERAS, OURS, GROUP, JOINED)
COLUMNS = ("fit", "in one execution", "one call", "in our ops")


def make_layer(way):
    import keras

    import keras_sparse

    layers = keras.layers if way == KERAS else keras_sparse.layers
    return layers.Embedding(INPUT_DIM, OUTPUT_DIM)


def make_optimizer(way):
    import keras

    import keras_sparse

    optimizers = keras.optimizers if way in (NONE, KERAS) else keras_sparse.optimizers
    return optimizers.Adagrad(0.01)


def make_group(num_tables, output_mode):
    import keras_sparse

    layers = [make_layer(GROUP) for _ in range(num_tables)]
    return keras_sparse.layers.GroupEmbedding(layers, output_mode=output_mode)


def make_model(way, num_tables, steps_per_execution):
    import keras

    ids = keras.Input((num_tables,), dtype="int64")
    columns = [ids[:, table] for table in range(num_tables)]
    if way == NONE:
        rows = keras.ops.cast(ids, "float32")
    elif way == JOINED:
        rows = make_group(num_tables, "concat")(ids)
    elif way == GROUP:
        rows = keras.layers.Concatenate()(make_group(num_tables, "list")(columns))
    else:
        rows = keras.layers.Concatenate()([make_layer(way)(column) for column in columns])
    model = keras.Model(ids, keras.layers.Dense(1, activation="sigmoid")(rows))
    model.compile(
        make_optimizer(way),
        loss="binary_crossentropy",
        steps_per_execution=steps_per_execution,
        jit_compile=False,  # of those without tables, too
    )
    return model


def make_batches(num_tables, options):
    """Returns ids and labels of as many batches as a turn has."""
    generator = np.random.default_rng(workloads.SEED)
    num_samples = options.batch_size * options.steps
    ids = workloads.zipf_ranks(generator, INPUT_DIM, (num_samples, num_tables))
    return ids, (generator.random((num_samples, 1)) < 0.25).astype(np.float32)


def make_fit(way, options, steps_per_execution):
    """Returns a function that takes the steps of a turn by `fit`."""
    import tensorflow as tf

    model = make_model(way, options.tables, steps_per_execution)
    batches = tf.data.Dataset.from_tensor_slices(make_batches(options.tables, options))
    batches = batches.batch(options.batch_size).cache().prefetch(2)
    return lambda: model.fit(batches, shuffle=False, verbose=0)


def make_loop(way, options):
    """Returns a function that takes the steps of a turn by calls of a compiled step."""
    import tensorflow as tf

    model = make_model(way, options.tables, 1)
    ids, labels = make_batches(options.tables, options)
    batch = [tf.constant(each[: options.batch_size]) for each in (ids, labels)]
    step = tf.function(lambda *batch: model.train_step(batch), reduce_retracing=True)

    def loop():
        for _ in range(options.steps):
            step(*batch)

    return loop


def microseconds_in_ops(turn, num_steps):
    """Returns what the ops of tables take of a step, as TensorFlow's profiler says."""
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            turn()
        space = xplane_pb2.XSpace()
        for path in glob.glob(f"{folder}/**/*.xplane.pb", recursive=True):
            with open(path, "rb") as file:
                space.MergeFromString(file.read())
    picoseconds = sum(
        event.duration_ps
        for plane in space.planes
        for line in plane.lines
        for event in line.events
        if ":KerasSparse" in plane.event_metadata[event.metadata_id].name
    )
    return picoseconds / 1e6 / num_steps


def take_turns(turns, num_steps, rounds):
    """Returns the times of each of some functions, in microseconds a step: a list a name."""
    for turn in turns.values():
        turn()
    times, names = {name: [] for name in turns}, list(turns)
    for number in range(rounds):
        for name in rotated(names, number):
            start = time.perf_counter()
            turns[name]()
            times[name].append((time.perf_counter() - start) * 1e6 / num_steps)
    return times


def measure_steps(options):
    """Returns medians: a dict by columns of dicts by ways."""
    makes = {
        "fit": functools.partial(make_fit, steps_per_execution=1),
        "in one execution": functools.partial(make_fit, steps_per_execution=STEPS_AT_ONCE),
        "one call": make_loop,
    }
    turns = {(column, way): makes[column](way, options) for column in makes for way in WAYS}
    medians = {column: {} for column in COLUMNS}
    for (column, way), times in take_turns(turns, options.steps, options.rounds).items():
        medians[column][way] = statistics.median(times)
    for way in (OURS, GROUP, JOINED):
        in_ops = microseconds_in_ops(turns["one call", way], options.steps)
        medians["in our ops"][way] = in_ops
    return medians


def table(medians):
    """Markdown: a line for each way."""
    cells = [[way, *(column.get(way) for column in medians.values())] for way in WAYS]
    texts = [[way, *("" if n is None else f"{n:,.0f}" for n in some)] for way, *some in cells]
    return markdown(["us a step", *medians], texts)


def main(arguments=None):
    options = options_of(
        __doc__, arguments, tables=26, batch_size=32, rounds=7, steps=256, threads=2
    )
    os.environ.update(environment_of(options.threads))
    steps = in_fresh_process(measure_steps, options)
    facts = (
        f"{options.tables} tables of {INPUT_DIM:,} x {OUTPUT_DIM}, batches of "
        f"{options.batch_size}, {options.threads} threads. Medians of {options.rounds} turns of "
        f"{options.steps} steps."
    )
    return show(TITLE, f"{facts}\n\n{table(steps)}")


if __name__ == "__main__":
    main()
