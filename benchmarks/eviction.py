"""How long does an eviction take, and what does remembering ages cost a training step?

    python -m benchmarks.eviction

A dynamic table of 1,000,000 x 64 with Adagrad's slot, in memory alone and over an SSD tier with a
tenth of its rows in memory. An eviction looks at every row: of `none` all stay, of `half` every
second one goes; the best of three. A step updates 26 x 8192 keys, few of them often (Zipf, 1.2), of
a table in memory that keeps ages and of one that does not, in turn. Other steps are those of a
table that is at its `max_rows` and lets its oldest rows, or its least frequent ones, go for new
keys, beside one without a limit.
"""

import argparse
import statistics
import tempfile
import time

import numpy as np

from benchmarks import workloads
from benchmarks.memory import CHUNK
from benchmarks.memory import DIM
from benchmarks.memory import touch_all

TITLE = "Eviction from a table of 1,000,000 x 64 with Adagrad's slot"
BATCH = 26 * 8192
EVICTIONS = 3
ROUNDS = 40


def make_table(eviction, storage=None, max_rows=None):
    import keras_sparse

    options = {"eviction": eviction, "storage": storage, "max_rows": max_rows}
    table = keras_sparse.EmbeddingVariable(None, DIM, **options)
    optimizer = keras_sparse.optimizers.Adagrad(0.01)
    optimizer.build([table])
    return table, optimizer


def seconds_of(call, *arguments):
    begin = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - begin


def measure(storage, by_age, goes, num_rows):
    """Seconds of the fastest eviction from a table all of whose rows have been trained."""
    import keras_sparse

    eviction = keras_sparse.GlobalStepEvict(5) if by_age else keras_sparse.L2WeightEvict(1.0)
    table, optimizer = make_table(eviction, storage)
    keys = workloads.scramble(np.random.default_rng(workloads.SEED).permutation(num_rows))
    touch_all(optimizer, table, keys)
    return min(measure_one(table, keys, goes) for _ in range(EVICTIONS))


def measure_one(table, keys, goes):
    """Seconds of one eviction, of rows that are written before."""
    for first in range(0, len(keys), CHUNK):
        part = keys[first : first + CHUNK]
        leaves = (np.arange(len(part)) % 2 == 0) & (goes == "half")
        rows = np.repeat(np.where(leaves, 0.0, 1.0)[:, np.newaxis], DIM, axis=1)
        table.import_(part, rows, np.where(leaves, 9, 0))
    table.stats()  # waits for rows on their way down
    seconds = seconds_of(table.evict)
    assert table.num_rows == len(keys) // (1 if goes == "none" else 2)
    return seconds


def measure_steps(num_rows):
    """Medians of a step's seconds, without ages and with them."""
    import keras_sparse

    tables = [make_table(eviction) for eviction in (None, keras_sparse.GlobalStepEvict(5))]
    return [statistics.median(times) for times in times_of_steps(tables, num_rows, num_rows)]


def measure_full(num_rows):
    """What steps take that bring new keys, without a limit and at it: a line."""
    import keras_sparse

    policies = (keras_sparse.LruEvict, keras_sparse.LfuEvict)
    full = [make_table(policy(), max_rows=num_rows) for policy in policies]
    times = times_of_steps([make_table(None), *full], num_rows, 8 * num_rows)
    without, *at_limit = (
        f"{statistics.median(each) * 1e3:.1f} ms (mean {statistics.mean(each) * 1e3:.1f})"
        for each in times
    )
    of_policies = (
        f"{taken} in a full table with {policy.__name__}, from which "
        f"{table.stats()['evicted_rows'] / ROUNDS:.0f} rows go each time"
        for policy, taken, (table, _) in zip(policies, at_limit, full, strict=True)
    )
    return (
        f"A step that brings new keys takes {without} without a limit, and "
        f"{', and '.join(of_policies)}."
    )


def times_of_steps(tables, num_rows, num_keys):
    """Seconds of the steps of each table, of keys of which the first `num_rows` have a row."""
    import tensorflow as tf

    keys = workloads.scramble(np.arange(num_keys))
    for table, optimizer in tables:
        touch_all(optimizer, table, keys[:num_rows])
    rng = np.random.default_rng(workloads.SEED)
    times = tuple([] for _ in tables)
    for _ in range(ROUNDS):
        ids = tf.constant(keys[(rng.zipf(1.2, BATCH) - 1) % num_keys])
        grads = tf.IndexedSlices(tf.fill((BATCH, DIM), 0.01), ids, (2**63 - 1, DIM))
        for (table, optimizer), mine in zip(tables, times, strict=True):
            mine.append(seconds_of(optimizer.apply, [grads], [table]))
    return times


def main(arguments=None):
    """Measures all cells and returns a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    num_rows = parser.parse_known_args(arguments)[0].rows
    import keras_sparse

    lines = ["| ms | by age, none | by age, half | by weight, none | by weight, half |", "|---" * 5]
    lines[1] += "|"
    for name in ("DRAM", "DRAM_SSDHASH"):
        cells = []
        for by_age in (True, False):
            for goes in ("none", "half"):
                with tempfile.TemporaryDirectory() as folder:
                    storage = None
                    if name == "DRAM_SSDHASH":
                        sizes = [num_rows * DIM * 8 // 10, num_rows * DIM * 32]
                        storage = keras_sparse.StorageOption(name, folder, sizes)
                    seconds = measure(storage, by_age, goes, num_rows)
                    cells.append(f"{seconds * 1e3:.0f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    without, with_ages = measure_steps(num_rows)
    step = (
        f"A step takes {without * 1e3:.2f} ms without ages and {with_ages * 1e3:.2f} ms with them."
    )
    return "\n".join([*lines, "", step, "", measure_full(num_rows)])


if __name__ == "__main__":
    print(main())
