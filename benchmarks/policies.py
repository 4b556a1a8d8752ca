"""What do admission and eviction policies cost?

    python -m benchmarks.policies [--parts admission evictions ages limit] [--rows 1000000]
    horovodrun -np 2 python -m benchmarks.policies --parts admission

A step looks 26 x 8192 keys up, few of them often (Zipf, 1.2), in a dynamic table of width 64 and
updates them with Adagrad. Tables take their steps in turn; over ranks the keys are those of all.

admission: tables without a filter, with one that counts steps and with one that counts occurrences,
and gradients that are clipped or not.

evictions: how long a look at every row takes, in memory alone and over an SSD tier with a tenth of
the rows in memory. Of `none` all stay, of `half` every second one goes; the best of three.

ages: steps of a table that keeps ages, and of one that does not.

limit: steps that bring new keys to a table which is at its `max_rows` and lets its oldest rows, or
its least frequent ones, go for them, beside one without a limit.
"""

import statistics
import tempfile
import time

import numpy as np

from benchmarks import workloads
from benchmarks.memory import CHUNK
from benchmarks.memory import DIM
from benchmarks.report import markdown
from benchmarks.report import options_of
from benchmarks.report import show

TITLE = "Admission and eviction in a table of 1,000,000 x 64 with Adagrad's slot"
BATCH, HOTNESS = 8192, 26
EVICTIONS = 3
ROUNDS, WARM_UP = 40, 10
FREQ = 5


class Table:
    """A table on the ranks and its training step.

    Args:
        options: Those of the layer.
        clip: Float. Norm of all gradients. Defaults to `None`.
    """

    def __init__(self, clip=None, **options):
        import tensorflow as tf

        import keras_sparse
        from keras_sparse import distribute

        embedding = keras_sparse.layers.Embedding(None, DIM, **options)
        layer = keras_sparse.layers.DistributedEmbedding([embedding])
        optimizer = keras_sparse.optimizers.Adagrad(0.01, global_clipnorm=clip)
        optimizer = distribute.DistributedOptimizer(optimizer)
        layer.build([(None, HOTNESS)])
        (self.variable,) = layer.trainable_variables
        optimizer.build([self.variable])

        @tf.function
        def step(ids):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(layer([ids])[0])
            optimizer.apply(tape.gradient(loss, [self.variable]), [self.variable])

        self.step = step

    def fill(self, keys):
        """Gives all keys their rows, by steps."""
        size = BATCH * HOTNESS
        for first in range(0, len(keys), size):
            self.step(np.resize(keys[first : first + size], (BATCH, HOTNESS)))


def times_of_steps(tables, num_keys):
    """Milliseconds of the steps of each table, which take turns."""
    from keras_sparse import distribute

    keys = workloads.scramble(np.arange(num_keys))
    rng = np.random.default_rng(workloads.SEED)
    times = [[] for _ in tables]
    for _ in range(WARM_UP + ROUNDS):
        ids = keys[(rng.zipf(1.2, (BATCH, HOTNESS)) - 1) % num_keys]
        mine = ids[distribute.rank() :: distribute.size()]
        for table, taken in zip(tables, times, strict=True):
            begin = time.perf_counter()
            table.step(mine)
            taken.append(1e3 * (time.perf_counter() - begin))
    return [taken[WARM_UP:] for taken in times]


def admission(num_rows):
    import keras_sparse
    from keras_sparse import distribute

    counter = keras_sparse.CounterFilter
    rows = []
    for name, clip in (("plain", None), ("clipped", 1.0)):
        filters = (None, counter(FREQ), counter(FREQ, count="occurrences"))
        tables = [Table(clip, admission=each) for each in filters]
        medians = map(statistics.median, times_of_steps(tables, num_rows))
        rows.append([f"{name}, {distribute.size()} ranks", *(f"{ms:.1f}" for ms in medians)])
    return markdown(["ms", "no filter", "steps", "occurrences"], rows)


def evictions(num_rows):
    import keras_sparse

    policies = {
        "by age": keras_sparse.GlobalStepEvict(5),
        "by weight": keras_sparse.L2WeightEvict(1.0),
    }
    cases = [(policy, goes) for policy in policies for goes in ("none", "half")]
    rows = []
    for name in ("DRAM", "DRAM_SSDHASH"):
        cells = []
        for policy, goes in cases:
            with tempfile.TemporaryDirectory() as folder:
                storage = None
                if name == "DRAM_SSDHASH":
                    sizes = [num_rows * DIM * 8 // 10, num_rows * DIM * 32]
                    storage = keras_sparse.StorageOption(name, folder, sizes)
                table = keras_sparse.EmbeddingVariable(
                    None, DIM, eviction=policies[policy], storage=storage
                )
                keras_sparse.optimizers.Adagrad(0.01).build([table])
                ms = min(ms_of_eviction(table, num_rows, goes) for _ in range(EVICTIONS))
                cells.append(f"{ms:.0f}")
        rows.append([name, *cells])
    return markdown(["ms", *(f"{policy}, {goes}" for policy, goes in cases)], rows)


def ms_of_eviction(table, num_rows, goes):
    """Milliseconds of one eviction, of rows that are written before."""
    keys = workloads.scramble(np.random.default_rng(workloads.SEED).permutation(num_rows))
    for first in range(0, num_rows, CHUNK):
        part = keys[first : first + CHUNK]
        leaves = (np.arange(len(part)) % 2 == 0) & (goes == "half")
        rows = np.repeat(np.where(leaves, 0.0, 1.0)[:, np.newaxis], DIM, axis=1)
        table.import_(part, rows, np.where(leaves, 9, 0))
    table.stats()  # waits for rows on their way down
    begin = time.perf_counter()
    table.evict()
    milliseconds = 1e3 * (time.perf_counter() - begin)
    assert table.num_rows == num_rows // (1 if goes == "none" else 2)
    return milliseconds


def ages(num_rows):
    import keras_sparse

    tables = [Table(eviction=each) for each in (None, keras_sparse.GlobalStepEvict(5))]
    return compare(["without ages", "with ages"], tables, num_rows, num_rows)


def limit(num_rows):
    """Steps that bring new keys, without a limit and at it."""
    import keras_sparse

    policies = (keras_sparse.LruEvict, keras_sparse.LfuEvict)
    full = [Table(eviction=policy(), max_rows=num_rows) for policy in policies]
    names = ["without a limit", *(f"full, {policy.__name__}" for policy in policies)]
    return compare(names, [Table(), *full], num_rows, 8 * num_rows)


def compare(names, tables, num_rows, num_keys):
    """Steps of keys of which the first ones have a row."""
    keys = workloads.scramble(np.arange(num_rows))
    for table in tables:
        table.fill(keys)
    rows = []
    for name, table, times in zip(names, tables, times_of_steps(tables, num_keys), strict=True):
        cells = [f"{statistics.median(times):.1f}", f"{statistics.mean(times):.1f}"]
        evicted = table.variable.stats()["evicted_rows"] / (ROUNDS + WARM_UP)
        rows.append([name, *cells, f"{evicted:,.0f}"])
    return markdown(["ms a step", "median", "mean", "rows that go"], rows)


PARTS = {"admission": admission, "evictions": evictions, "ages": ages, "limit": limit}


def main(arguments=None):
    from keras_sparse import distribute

    options = options_of(__doc__, arguments, parts=tuple(PARTS), rows=1_000_000)
    text = "\n\n".join(f"{part}:\n\n{PARTS[part](options.rows)}" for part in options.parts)
    return show(TITLE, text) if distribute.rank() == 0 else text


if __name__ == "__main__":
    main()
