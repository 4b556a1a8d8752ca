"""How long is a training step of SparseOperationKit's DenseDemo, beside stock Keras?

    python -m benchmarks.dense_demo [--units 1024] [--batch-size 8192] [--rounds 3]

100 slots of 10 keys a sample, all of one table of rows of 4; then 7 dense layers, the last of one
unit; Adam. The ways are `All2AllDenseEmbedding` with and without a hash table, trained with
`keras_sparse.optimizers.Adam`, and `keras.layers.Embedding`, trained with `keras.optimizers.Adam`.
Both move the rows that a batch has not got, too; of a key that a batch has more than once Keras
adds up the squares of the gradients, and does not square their sum. All take turns on the same
batches.

"Embedding alone" is the lookup, the gradient when one number arrives at all of its output, and the
update.
"""

import argparse
import os
import statistics

import numpy as np

from benchmarks import workloads
from benchmarks.process import in_fresh_process
from benchmarks.timing import environment_of
from benchmarks.worker import take_turn
from benchmarks.worker import WARM_STEPS

TITLE = "DenseDemo of SparseOperationKit, one training step, ms"
NUM_SLOTS, NUM_KEYS, WIDTH = 100, 10, 4
NUM_HIDDEN = 6
NUM_BATCHES = WARM_STEPS  # all have run, and made their rows, before a turn's clock starts
HASHED, STATIC, KERAS = (
    "keras_sparse.layers.All2AllDenseEmbedding",
    "keras_sparse.layers.All2AllDenseEmbedding, use_hashtable=False",
    "keras.layers.Embedding",
)
WAYS = (HASHED, STATIC, KERAS)
COLUMNS = ("training step", "embedding alone")


def make_batches(batch_size, vocabulary):
    """Returns pairs of keys, `(batch_size, 100, 10)`, and labels, `(batch_size, 1)`."""
    import tensorflow as tf

    generator = np.random.default_rng(workloads.SEED)
    keys = generator.permutation(vocabulary)
    batches = []
    for _ in range(NUM_BATCHES):
        shape = (batch_size, NUM_SLOTS, NUM_KEYS)
        ranks = workloads.zipf_ranks(generator, vocabulary, shape)
        labels = generator.random((batch_size, 1)) < 0.25
        batches.append((tf.constant(keys[ranks]), tf.constant(labels, tf.float32)))
    return batches


def build_embedding(way, vocabulary):
    """Returns a layer and the optimizer that goes with it."""
    import keras

    import keras_sparse

    if way == KERAS:
        return keras.layers.Embedding(vocabulary, WIDTH), keras.optimizers.Adam(0.001)
    layer = keras_sparse.layers.All2AllDenseEmbedding(
        vocabulary, WIDTH, NUM_SLOTS, NUM_KEYS, use_hashtable=way == HASHED
    )
    return layer, keras_sparse.optimizers.Adam(0.001)


def build_dense(units):
    """Returns the layers that follow the embedding, built."""
    import keras

    dense = keras.Sequential([keras.layers.Flatten()])
    for _ in range(NUM_HIDDEN):
        dense.add(keras.layers.Dense(units, "relu"))
    dense.add(keras.layers.Dense(1))
    dense.build((None, NUM_SLOTS, NUM_KEYS, WIDTH))
    return dense


def make_step(way, column, options):
    """Returns a function of a batch that trains on it."""
    import tensorflow as tf

    layer, optimizer = build_embedding(way, options.vocabulary)
    layer.build((None, NUM_SLOTS, NUM_KEYS))
    dense = build_dense(options.units)
    variables = layer.trainable_variables
    if column == "training step":
        variables = variables + dense.trainable_variables
    optimizer.build(variables)
    grads = tf.fill((options.batch_size, NUM_SLOTS, NUM_KEYS, WIDTH), 0.01)

    @tf.function
    def train(keys, labels):
        with tf.GradientTape() as tape:
            logits = dense(layer(keys))
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    @tf.function
    def train_alone(keys, labels):
        with tf.GradientTape() as tape:
            rows = layer(keys)
        optimizer.apply(tape.gradient(rows, variables, grads), variables)
        return rows[0, 0, 0, 0]  # else TensorFlow would leave the lookup out

    return train if column == "training step" else train_alone


def measure(column, options):
    """Returns the times of each way's steps, in ms."""
    batches = make_batches(options.batch_size, options.vocabulary)
    steps = {way: make_step(way, column, options) for way in WAYS}
    times = {way: [] for way in WAYS}
    for number in range(options.rounds):
        first = number % len(WAYS)
        for way in WAYS[first:] + WAYS[:first]:
            times[way] += take_turn(
                lambda batch, step=steps[way]: step(*batches[batch % NUM_BATCHES]),
                0,
                options.steps,
                options.most_seconds,
            )
    return times


def table(results):
    """Markdown: medians of the ways in each column, and how many times as fast as Keras."""
    head = [cell for column in results for cell in (column, "speed to Keras")]
    lines = ["| | " + " | ".join(head) + " |", "|---" * (len(head) + 1) + "|"]
    for way in WAYS:
        cells = []
        for times in results.values():
            medians = {each: statistics.median(times[each]) for each in (way, KERAS)}
            cells += [f"{medians[way]:.3g}", f"{medians[KERAS] / medians[way]:.2f}"]
        lines.append(f"| {way} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, default=1024, help="of a hidden layer (1024)")
    parser.add_argument("--batch-size", type=int, default=8192)
    parser.add_argument("--vocabulary", type=int, default=1_000_000, help="keys (1,000,000)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of every way (3)")
    parser.add_argument("--steps", type=int, default=5, help="steps of a turn, at most (5)")
    parser.add_argument("--most-seconds", type=float, default=5.0, help="a turn's time (5)")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_known_args(arguments)[0]
    os.environ.update(environment_of(options.threads))
    results = {}
    for column in COLUMNS:
        results[column] = in_fresh_process(measure, column, options)
        print(f"{column}: done", flush=True)
    facts = (
        f"Batches of {options.batch_size:,}, {options.vocabulary:,} keys, "
        f"hidden layers of {options.units:,} units, {options.threads} threads. Medians."
    )
    text = f"{facts}\n\n{table(results)}"
    print(f"{TITLE}\n\n{text}\n", flush=True)
    return text


if __name__ == "__main__":
    main()
