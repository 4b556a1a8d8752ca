"""What does the loop of each update rule take where memory does not count?

    python -m benchmarks.rule_loops [--rows 1024] [--width 64] [--rounds 9]

A static table that fits into the caches, all of whose rows have a gradient in each of 100 steps of
one call: no row misses a step, and none comes from memory. From the time of a call goes that of one
whose steps update a single row, which is TensorFlow's part. What is left is adding gradients up and
finding rows, which is the same for all rules, what a rule computes, and the slots that it reads and
writes. In turns; "floats" is what a row and its slots are to those of Adagrad.
"""

import argparse
import os
import statistics
import time

import numpy as np

from benchmarks.optimizers import RULES
from benchmarks.process import in_fresh_process
from benchmarks.timing import environment_of

TITLE = "Each rule's loop, rows in the caches"
STEPS = 100


def optimizers():
    """Functions that make the optimizer of each row of the table."""
    from benchmarks.peers.ours import OPTIMIZERS
    from keras_sparse import optimizers

    others = {
        "nesterov": lambda: optimizers.SGD(0.01, momentum=0.9, nesterov=True),
        "centered rmsprop": lambda: optimizers.RMSprop(0.001, centered=True),
        "rmsprop with momentum": lambda: optimizers.RMSprop(0.001, momentum=0.9),
        "adam_async": lambda: optimizers.AdamAsync(0.001),
        "adam_async with rmsprop": lambda: optimizers.AdamAsync(0.001, apply_sparse_rmsprop=True),
    }
    return {name: OPTIMIZERS[name] for name in RULES} | others


def make_calls(make_optimizer, options):
    """Returns functions that take the steps, of all rows and of one, and the floats of a record."""
    import tensorflow as tf

    import keras_sparse

    table = keras_sparse.EmbeddingVariable(options.rows, options.width)
    optimizer = make_optimizer()
    optimizer.build([table])
    generator = np.random.default_rng(1)
    values = tf.constant(generator.normal(size=(options.rows, options.width)), tf.float32)

    def call_of(num_rows):
        grad = tf.IndexedSlices(values[:num_rows], tf.range(num_rows, dtype=tf.int64))

        @tf.function
        def call():
            for _ in range(STEPS):
                optimizer.apply([grad], [table])

        return call

    return call_of(options.rows), call_of(1), next(table.export())[1].shape[1]


def measure(options):
    """Returns for each rule the nanoseconds a row of each call, and the floats of a record."""
    made = {name: make_calls(make, options) for name, make in optimizers().items()}
    for all_rows, one_row, _ in made.values():
        seconds_of(all_rows)  # traced
        seconds_of(one_row)
    times = {name: [] for name in made}
    for _ in range(options.rounds):
        for name, (all_rows, one_row, _) in made.items():
            seconds = seconds_of(all_rows) - seconds_of(one_row)
            times[name].append(1e9 * seconds / (STEPS * (options.rows - 1)))
    return {name: (times[name], floats) for name, (_, _, floats) in made.items()}


def seconds_of(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def table(results):
    """Markdown: medians, and what they and the floats of a record are to those of Adagrad."""
    lines = ["| | ns a row | to Adagrad | floats to Adagrad |", "|---" * 4 + "|"]
    of_adagrad = statistics.median(results["adagrad"][0]), results["adagrad"][1]
    for name, (times, floats) in results.items():
        median = statistics.median(times)
        ratios = f"{median / of_adagrad[0]:.2f} | {floats / of_adagrad[1]:.2f}"
        lines.append(f"| {name} | {median:.3g} | {ratios} |")
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=9, help="calls of every rule (9)")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_known_args(arguments)[0]
    os.environ.update(environment_of(options.threads))
    results = table(in_fresh_process(measure, options))
    where = f"{options.rows:,} rows of {options.width}, threads: {options.threads}. Medians."
    text = f"{where}\n\n{results}"
    print(f"{TITLE}\n\n{text}\n", flush=True)
    return text


if __name__ == "__main__":
    main()
