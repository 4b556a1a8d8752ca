"""How much memory does a table take beside its rows and slots?

    python -m benchmarks.memory

Tables of 5,000,000 rows of 64, every row touched by an update. `payload` is rows and slots alone;
`resident` is what the process grew by, `stats()` what the table says of itself.
"""

import argparse

import numpy as np

from benchmarks import workloads
from benchmarks.process import in_fresh_process
from benchmarks.process import resident_bytes
from benchmarks.report import mib

TITLE = "Memory of a table of 5,000,000 x 64, MiB"
SLOTS = {"sgd": 0, "adagrad": 1, "adam": 2}
DIM = 64
CHUNK = 1 << 17


def touch_all(optimizer, variable, keys):
    """Gives every row a gradient, some at a time."""
    import tensorflow as tf

    shape = (2**63 - 1, DIM)
    values = tf.fill((CHUNK, DIM), 0.01)
    for start in range(0, len(keys), CHUNK):
        ids = tf.constant(keys[start : start + CHUNK])
        optimizer.apply([tf.IndexedSlices(values[: len(ids)], ids, shape)], [variable])


def measure_ours(column, num_rows, dynamic):
    import keras_sparse
    from benchmarks.peers import ours

    ranks = np.random.default_rng(workloads.SEED).permutation(num_rows)
    keys = workloads.scramble(ranks) if dynamic else ranks
    warm = keras_sparse.layers.Embedding(10, DIM)
    warm.build((None,))
    touch_all(ours.OPTIMIZERS[column](), warm.embeddings, keys[:5] % 10)
    before = resident_bytes()
    layer = keras_sparse.layers.Embedding(None if dynamic else num_rows, DIM)
    layer.build((None,))
    touch_all(ours.OPTIMIZERS[column](), layer.embeddings, keys)
    stats = layer.embeddings.stats()
    return resident_bytes() - before, stats["rows"], stats["bytes"]


def measure_keras(column, num_rows):
    import keras

    from benchmarks.peers.keras_layers import OPTIMIZERS

    before = resident_bytes()
    layer = keras.layers.Embedding(num_rows, DIM)
    layer.build()
    optimizer = OPTIMIZERS[column]()
    optimizer.build([layer.embeddings])
    return resident_bytes() - before, num_rows, None


def row(name, column, measured):
    grown, rows, counted = measured
    payload = rows * DIM * 4 * (1 + SLOTS[column])
    cells = [name, column, mib(payload), mib(grown), f"{grown / payload - 1:+.1%}"]
    cells += ["", ""] if counted is None else [mib(counted), f"{counted / payload - 1:+.1%}"]
    return "| " + " | ".join(cells) + " |"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=TITLE)
    parser.add_argument("--workload-scale", type=float, default=1.0)
    options, _ = parser.parse_known_args(arguments)
    num_rows = int(5_000_000 * options.workload_scale)
    head = ["table", "rule", "payload", "resident", "over", "stats()", "over"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for column in SLOTS:
        for name, dynamic in (("keras_sparse, static", False), ("keras_sparse, dynamic", True)):
            measured = in_fresh_process(measure_ours, column, num_rows, dynamic)
            lines.append(row(name, column, measured))
        measured = in_fresh_process(measure_keras, column, num_rows)
        lines.append(row("keras.layers.Embedding, built", column, measured))
    print(f"{TITLE}\n\n" + "\n".join(lines) + "\n", flush=True)
    return "\n".join(lines)


if __name__ == "__main__":
    main()
