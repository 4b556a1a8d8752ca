"""What do many tables cost that are looked up together, against as many layers one by one?

    python -m benchmarks.group [--tables 1 10 100 1000] [--batch-size 4096] [--rounds 5] [--eager]

Static tables of 10,000 rows, of widths from 4 to 64, in one process: `GroupEmbedding`, as many
`keras_sparse.layers.Embedding` and as many `keras.layers.Embedding`, forward and for a training
step with Adagrad; with one id a sample and table, and with 1 to 10, summed. They take turns on the
same ids. The aim is 5 times the speed of Keras forward and 10 times in a step, for 100 tables.

A step is a call of a `tf.function`, as `model.fit` makes one. It holds the ids: hundreds of tensors
as its arguments would cost milliseconds, which `fit` does not pay, as it draws batches inside. All
outputs go to one op that looks at none of them, else TensorFlow would leave lookups out. With
`--eager` nothing is a function: layers are called one by one from Python, and so is what they do.

"Plain C++" does the same work, the tables of a width at a time, with nothing around it
(`benchmarks/floor`, on huge pages). "Plain C++ as TensorFlow ops" has the same loops in an op a
width, in a function that is called as the others are, and writes into the same outputs again and
again: what the loops take in TensorFlow with no engine around them. "Writing the outputs alone"
takes its turns too: as many bytes as all outputs have, in order and past the caches, and no row
read. What the call of a function of all tables costs is seen with `--batch-size 1`.
"""

import argparse
import ctypes
import os
import statistics

import numpy as np

from benchmarks import workloads
from benchmarks.peers import floor
from benchmarks.process import in_fresh_process
from benchmarks.timing import environment_of
from benchmarks.worker import take_turn

TITLE = "Many tables together, ms"
INPUT_DIM = 10_000
WIDTHS = (4, 8, 16, 32, 64)
MOST_IDS = 10  # of a sample in a ragged bag
KINDS = {"one": "one id a sample", "ragged": f"1 to {MOST_IDS} ids a sample, summed"}
GROUP, OURS, KERAS = (
    "keras_sparse.layers.GroupEmbedding",
    "keras_sparse.layers.Embedding each",
    "keras.layers.Embedding each",
)
PLAIN = "plain C++, huge pages"
PLAIN_OPS = "plain C++ as TensorFlow ops"
WRITE = "writing the outputs alone"
COLUMNS = ("forward", "adagrad")


def widths_of(num_tables):
    return [WIDTHS[table % len(WIDTHS)] for table in range(num_tables)]


def make_ids(kind, num_tables, batch_size):
    """Returns the ids of each table: tensors, or RaggedTensors."""
    import tensorflow as tf

    generator = np.random.default_rng(workloads.SEED)
    inputs = []
    for _ in range(num_tables):
        lengths = np.ones(batch_size, np.int64)
        if kind == "ragged":
            lengths = generator.integers(1, MOST_IDS + 1, batch_size)
        ranks = workloads.zipf_ranks(generator, INPUT_DIM, lengths.sum())
        ids = tf.constant(generator.permutation(INPUT_DIM)[ranks])
        inputs.append(ids if kind == "one" else tf.RaggedTensor.from_row_lengths(ids, lengths))
    return inputs


def build(way, kind, num_tables):
    """Returns a function of the ids that gives the outputs, an optimizer, and what it trains."""
    import keras

    import keras_sparse

    combiner = None if kind == "one" else "sum"
    sizes = [(INPUT_DIM, width) for width in widths_of(num_tables)]
    if way == KERAS:
        layers = [keras.layers.Embedding(*size) for size in sizes]
        optimizer = keras.optimizers.Adagrad(0.01)
    else:
        layers = [keras_sparse.layers.Embedding(*size, combiner) for size in sizes]
        optimizer = keras_sparse.optimizers.Adagrad(0.01)
    if way == GROUP:
        layers = [keras_sparse.layers.GroupEmbedding(layers)]
    for layer in layers:
        layer.build((None,))
    variables = [variable for layer in layers for variable in layer.trainable_variables]
    optimizer.build(variables)

    def look_up(inputs):
        if way == GROUP:
            return layers[0](inputs)
        return [call(*each) for each in zip(layers, inputs, strict=True)]

    pools_itself = way != KERAS or kind == "one"
    call = call_layer if pools_itself else call_and_pool
    return look_up, optimizer, variables


def call_layer(layer, ids):
    return layer(ids)


def call_and_pool(layer, ids):
    """The fastest of Keras' and TensorFlow's own ways."""
    import tensorflow as tf

    return tf.math.segment_sum(layer(ids.values), ids.value_rowids())


def use(outputs):
    """Keeps TensorFlow from leaving lookups out, without a look at what they give."""
    import tensorflow as tf

    tf.raw_ops.Assert(condition=tf.random.uniform(()) >= 0, data=outputs)


def make_step(way, kind, column, inputs, grads, eager=False):
    """Returns a function that takes one step."""
    import tensorflow as tf

    look_up, optimizer, variables = build(way, kind, len(inputs))

    def train():
        with tf.GradientTape() as tape:
            outputs = look_up(inputs)
        optimizer.apply(tape.gradient(outputs, variables, grads), variables)
        return outputs

    def forward():
        return look_up(inputs)

    step = forward if column == "forward" else train
    return step if eager else tf.function(lambda: use(step()))


def make_floors(make, kind, inputs, options):
    """The tables of each width as a floor, Adagrad's slots beside the rows as ours have them."""
    num_bytes = 4 * options.batch_size * sum(widths_of(len(inputs)))
    return [
        make(workload, "adagrad", huge=True, output_bytes=num_bytes)
        for workload in workloads_of_widths(kind, inputs, options.batch_size)
    ]


def make_plain(kind, column, inputs, options):
    """Returns a function that takes one step of plain C++, all lookups first."""
    floors = make_floors(floor.Floor, kind, inputs, options)

    def step():
        for each in floors:
            each.forward(0)
        if column != "forward":
            for each in floors:
                each.update(0)

    return step


def make_plain_ops(kind, column, inputs, grads, options):
    """Returns a function that takes one step of plain C++ in ops."""
    import tensorflow as tf

    from benchmarks.peers.floor_in_tensorflow import FloorInTensorFlow

    floors = make_floors(FloorInTensorFlow, kind, inputs, options)
    ids = inputs if kind == "one" else [each.values for each in inputs]
    splits = [] if kind == "one" else [each.row_splits for each in inputs]

    @tf.function
    def step():
        outputs = []
        for first, tables in enumerate(floors):
            own = [tensors[first :: len(WIDTHS)] for tensors in (ids, splits, grads)]
            if column == "forward":
                outputs += tables.lookup(*own[:2])
            else:
                outputs += tables.look_up_and_update(*own)
        use(outputs)

    return step


def workloads_of_widths(kind, inputs, batch_size):
    """The tables of each width as a workload whose batches are all the same."""
    for first, width in enumerate(WIDTHS[: len(inputs)]):
        own = inputs[first :: len(WIDTHS)]
        if kind == "one":
            ids, splits = [each.numpy() for each in own], None
        else:
            ids = [each.values.numpy() for each in own]
            splits = [[each.row_splits.numpy() for each in own]] * workloads.NUM_BATCHES
        yield workloads.Workload(
            name="group",
            num_tables=len(own),
            input_dim=INPUT_DIM,
            output_dim=width,
            dynamic=False,
            hotness=1,
            combiner=None if kind == "one" else "sum",
            ids=[ids] * workloads.NUM_BATCHES,
            row_splits=splits,
            batch_size=batch_size,
        )


def make_write(grads):
    """Returns a function that writes as much as all outputs."""
    memory = floor.aligned((sum(int(np.prod(grad.shape)) for grad in grads),))
    address, num_bytes = memory.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(memory.nbytes)
    library = floor.shared_library()
    return lambda: library.FloorWriteInOrder(address, num_bytes)


def measure(kind, column, num_tables, options):
    """Returns the times of each way's steps, in ms."""
    import tensorflow as tf

    inputs = make_ids(kind, num_tables, options.batch_size)
    grads = [tf.fill((options.batch_size, width), 0.01) for width in widths_of(num_tables)]
    ways = [GROUP, OURS, KERAS] if num_tables <= options.most_one_by_one else [GROUP]
    steps = {way: make_step(way, kind, column, inputs, grads, options.eager) for way in ways}
    if not options.eager:  # there is nothing plain about a call from Python
        steps[PLAIN] = make_plain(kind, column, inputs, options)
        steps[PLAIN_OPS] = make_plain_ops(kind, column, inputs, grads, options)
        if column == "forward":
            steps[WRITE] = make_write(grads)
    ways = list(steps)
    times = {way: [] for way in ways}
    for step in steps.values():
        step()  # traced
    for number in range(options.rounds):
        first = number % len(ways)
        for way in ways[first:] + ways[:first]:
            times[way] += take_turn(
                lambda batch, step=steps[way]: step(), 0, options.steps, options.most_seconds
            )
    return times


def table(kind, results):
    """Markdown: medians of the ways, what a table costs in a group, and the floor."""
    shown = (GROUP, OURS, KERAS, PLAIN, PLAIN_OPS, WRITE)
    speeds = ("speed to Keras", "of plain C++", "of that as ops")
    head = ["tables", "column", *shown, *speeds, "us a table, grouped"]
    lines = [KINDS[kind], "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for (num_tables, column), times in results.items():
        medians = {way: statistics.median(each) for way, each in times.items()}
        cells = [f"{medians[way]:.3g}" if way in medians else "" for way in shown]
        speeds = [
            f"{medians[KERAS] / medians[way]:.1f}" if {KERAS, way} <= medians.keys() else ""
            for way in (GROUP, PLAIN, PLAIN_OPS)
        ]
        a_table = f"{medians[GROUP] / num_tables * 1e3:.3g}"
        cells = [str(num_tables), column, *cells, *speeds, a_table]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--columns", nargs="+", default=list(COLUMNS), choices=COLUMNS)
    parser.add_argument("--batch-size", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=5, help="turns of every way (5)")
    parser.add_argument("--steps", type=int, default=50, help="steps of a turn, at most (50)")
    parser.add_argument("--most-seconds", type=float, default=2.0, help="a turn's time (2)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--most-one-by-one", type=int, default=100, help="tables of layers one by one (100)"
    )
    parser.add_argument("--eager", action="store_true", help="no tf.function")
    options = parser.parse_known_args(arguments)[0]
    os.environ.update(environment_of(options.threads))
    texts = []
    with floor.compiled_once():
        for kind in options.kinds:
            results = {}
            for num_tables in options.tables:
                for column in options.columns:
                    case = (kind, column, num_tables, options)
                    results[num_tables, column] = in_fresh_process(measure, *case)
                    print(f"{kind}, {column}, {num_tables} tables: done", flush=True)
            texts.append(table(kind, results))
    text = "\n\n".join([f"Batches of {options.batch_size:,}. Medians.", *texts])
    print(f"{TITLE}\n\n{text}\n", flush=True)
    return text


if __name__ == "__main__":
    main()
