"""What does an admission filter cost a training step, and what does it cost to count occurrences?

    python -m benchmarks.admission
    horovodrun -np 2 python -m benchmarks.admission

A step looks 26 x 8192 keys up, few of them often (Zipf, 1.2), in a dynamic table of up to 1,000,000
x 64 and updates them with Adagrad, whose gradients are clipped or not; over ranks these keys are
those of all of them. Tables without a filter, with one that counts steps and with one that counts
occurrences take the steps in turn.
"""

import statistics
import time

import numpy as np

from benchmarks import workloads
from benchmarks.memory import DIM

TITLE = "Admission filters in a step of 26 x 8192 keys"
BATCH, HOTNESS = 8192, 26
NUM_KEYS = 1_000_000
ROUNDS, WARM_UP = 40, 10
FREQ = 5


def make_step(admission, options):
    """Returns a function of ids that takes a step with a table of its own."""
    import tensorflow as tf

    import keras_sparse
    from keras_sparse import distribute

    table = keras_sparse.layers.Embedding(None, DIM, admission=admission)
    layer = keras_sparse.layers.DistributedEmbedding([table])
    optimizer = keras_sparse.optimizers.Adagrad(0.01, **options)
    optimizer = distribute.DistributedOptimizer(optimizer)
    layer.build([(None, HOTNESS)])
    optimizer.build(layer.trainable_variables)

    @tf.function
    def step(ids):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer([ids])[0])
        variables = layer.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)

    return step


def measure(options):
    """Medians of a step's milliseconds: without a filter, of steps and of occurrences."""
    import tensorflow as tf

    import keras_sparse
    from keras_sparse import distribute

    filters = (
        None,
        keras_sparse.CounterFilter(FREQ),
        keras_sparse.CounterFilter(FREQ, count="occurrences"),
    )
    steps = [make_step(admission, options) for admission in filters]
    keys = workloads.scramble(np.arange(NUM_KEYS))
    rng = np.random.default_rng(workloads.SEED)
    times = [[] for _ in steps]
    for _ in range(WARM_UP + ROUNDS):
        ids = keys[(rng.zipf(1.2, (BATCH, HOTNESS)) - 1) % NUM_KEYS]
        mine = tf.constant(ids[distribute.rank() :: distribute.size()])
        for step, taken in zip(steps, times, strict=True):
            begin = time.perf_counter()
            step(mine)
            taken.append(time.perf_counter() - begin)
    return [1e3 * statistics.median(taken[WARM_UP:]) for taken in times]


def main(arguments=None):
    """Measures all cells and returns a Markdown table."""
    from keras_sparse import distribute

    lines = ["| ms | no filter | steps | occurrences |", "|---|---|---|---|"]
    for name, options in (("plain", {}), ("clipped", {"global_clipnorm": 1.0})):
        cells = " | ".join(f"{milliseconds:.1f}" for milliseconds in measure(options))
        lines.append(f"| {name}, {distribute.size()} ranks | {cells} |")
    return "\n".join(lines) if distribute.rank() == 0 else ""


if __name__ == "__main__":
    print(main())
