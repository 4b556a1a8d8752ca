"""How much memory does a table take beside its rows and slots?

    python -m benchmarks.memory

Tables of 5,000,000 rows of 64, every row touched by an update. `payload` is rows and slots alone;
`resident` is what the process grew by, `stats()` what the table says of itself.
"""

import numpy as np

from benchmarks import workloads
from benchmarks.process import in_fresh_process
from benchmarks.process import resident_bytes
from benchmarks.report import markdown
from benchmarks.report import mib
from benchmarks.report import options_of
from benchmarks.report import show

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
    from benchmarks.peers.keras_layers import make_optimizer

    ranks = np.random.default_rng(workloads.SEED).permutation(num_rows)
    keys = workloads.scramble(ranks) if dynamic else ranks
    warm = keras_sparse.layers.Embedding(10, DIM)
    warm.build((None,))
    touch_all(make_optimizer(column, keras_sparse), warm.embeddings, keys[:5] % 10)
    before = resident_bytes()
    layer = keras_sparse.layers.Embedding(None if dynamic else num_rows, DIM)
    layer.build((None,))
    touch_all(make_optimizer(column, keras_sparse), layer.embeddings, keys)
    stats = layer.embeddings.stats()
    return resident_bytes() - before, stats["rows"], stats["bytes"]


def measure_keras(column, num_rows):
    import keras

    from benchmarks.peers.keras_layers import make_optimizer

    before = resident_bytes()
    layer = keras.layers.Embedding(num_rows, DIM)
    layer.build()
    optimizer = make_optimizer(column)
    optimizer.build([layer.embeddings])
    return resident_bytes() - before, num_rows, None


def row(name, column, measured):
    grown, rows, counted = measured
    payload = rows * DIM * 4 * (1 + SLOTS[column])
    cells = [name, column, mib(payload)]
    for num_bytes in (grown, counted):
        known = num_bytes is not None
        cells += [mib(num_bytes), f"{num_bytes / payload - 1:+.1%}"] if known else ["", ""]
    return cells


def main(arguments=None):
    options = options_of(__doc__, arguments, workload_scale=1.0)
    num_rows = int(5_000_000 * options.workload_scale)
    rows = []
    for column in SLOTS:
        for name, dynamic in (("keras_sparse, static", False), ("keras_sparse, dynamic", True)):
            measured = in_fresh_process(measure_ours, column, num_rows, dynamic)
            rows.append(row(name, column, measured))
        measured = in_fresh_process(measure_keras, column, num_rows)
        rows.append(row("keras.layers.Embedding, built", column, measured))
    head = ["table", "rule", "payload", "resident", "over", "stats()", "over"]
    return show(TITLE, markdown(head, rows))


if __name__ == "__main__":
    main()
