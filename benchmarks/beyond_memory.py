"""Does a table ten times as large as the memory of its process train, and what does that take?

    python -m benchmarks.beyond_memory --folder FOLDER [--rows 80000000] [--limit 4]

Rows of 64 with Adagrad's slot, 512 bytes a row, each made by a training step; then W3's batches
drawn from all of them. The system gives the process no more private memory than the limit, in GiB
(`RLIMIT_DATA`): TensorFlow, the stacks of threads, the index and a first tier of an eighth of it.
Beside it a table in memory alone, as far as it comes. The page cache is the system's and has no
limit here: the steps of the last measurement begin with none of the files in it.
"""

import contextlib
import os
import pathlib
import resource
import shutil
import signal
import statistics
import tempfile
import time
from concurrent.futures.process import BrokenProcessPool

import numpy as np

from benchmarks import workloads
from benchmarks.process import in_fresh_process
from benchmarks.process import resident_bytes
from benchmarks.report import markdown
from benchmarks.report import mib
from benchmarks.report import options_of
from benchmarks.report import show
from benchmarks.storage_tiers import reads_so_far
from benchmarks.training import make_gradients
from benchmarks.training import RECORD_BYTES
from benchmarks.training import Trained

TITLE = "A table larger than the memory of its process"
ENTRY_BYTES = RECORD_BYTES + 12  # as it is in a file
FIRST_TIER = 8  # the part of the limit
NEW_KEYS = 65_536  # in a step that makes rows
BATCH = workloads.BATCH_SIZE * 26
STRIDE = 2**31 - 1  # a prime: its multiples are all the ranks, in an order of their own
THREADS = ("OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")


def capacity_of(num_rows):
    """Bytes of the last tier; a fifth is room for compaction."""
    return num_rows * ENTRY_BYTES * 6 // 5


def parse(arguments=None):
    """The options. An error where the disk has no room for what they ask for."""
    options = options_of(__doc__, arguments, rows=80_000_000, limit=4.0, steps=40, folder=None)
    folder = options.folder or tempfile.gettempdir()
    # Compaction writes a segment, a 64th, before it removes one.
    needed = capacity_of(options.rows) * 65 // 64 + 3 * options.steps * BATCH * 8
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ValueError(
            f"`--folder` must have room for {needed:,} bytes. Name one on another disk, or take "
            f"fewer `--rows`. Received: '{folder}' with {free:,} bytes free, rows={options.rows:,}"
        )
    return options


def draw_batches(num_rows, steps, path):
    """Writes W3's batches to a file: drawing from all of its keys takes gigabytes."""
    generator = np.random.default_rng(workloads.SEED)
    ranks = workloads.zipf_ranks(generator, num_rows, (3 * steps, BATCH))
    workloads.scramble(ranks).tofile(path)


def keys_made(places, num_rows):
    """The keys that are the first, second, ... to get a row."""
    return workloads.scramble(places * STRIDE % num_rows)


def sample_keys(num_rows):
    """Keys made at all times, used seldom, and those used most."""
    made = keys_made(np.linspace(0, num_rows - 1, 4096).astype(np.int64), num_rows)
    return np.concatenate([made, workloads.scramble(np.arange(min(num_rows, 1024)))])


class Sample:
    """Some keys, and a table in memory of these alone."""

    def __init__(self, keys):
        self.keys = np.unique(keys)
        self.trained = Trained()

    def step(self, ids, grads):
        """Trains on what a batch has of the sample."""
        at = np.flatnonzero(np.isin(ids, self.keys))
        if len(at):
            self.trained.step(ids[at], np.asarray(grads)[at])

    def count_equal(self, trained):
        """How many rows are the same, bit for bit, in a table of all keys."""
        rows = [each.rows_of(self.keys).view(np.int32) for each in (trained, self.trained)]
        return int(np.equal(*rows).all(axis=1).sum())


def make_rows(num_rows, grads, *trained):
    """Trains every key once, in each of the tables. Yields how many there are after each step."""
    for begin in range(0, num_rows, NEW_KEYS):
        ids = keys_made(np.arange(begin, min(begin + NEW_KEYS, num_rows)), num_rows)
        for each in trained:
            each.step(ids, grads[: len(ids)])
        yield begin + len(ids)


def watch(made, num_rows, table):
    """Returns the memory of the process by the number of rows, and how long all rows took."""
    memory, start = {}, time.perf_counter()
    every = 1 + num_rows // NEW_KEYS // 20
    for number, rows in enumerate(made, 1):
        if number % every == 0 or rows == num_rows:
            table.stats()  # waits until what was demoted is written
            memory[rows] = resident_bytes()
            seconds = time.perf_counter() - start
            print(f"{rows:,} rows, {seconds:.0f} s, {mib(memory[rows])} MiB", flush=True)
    return memory, seconds


def growth(memory):
    """Bytes a row, of the second half of the rows: the first tier is full by then."""
    late = [rows for rows in memory if 2 * rows >= max(memory)]
    return float(np.polyfit(late, [memory[rows] for rows in late], 1)[0])


def drop_cached(folder):
    """Leaves nothing of the files in the page cache."""
    for path in pathlib.Path(folder).rglob("*.seg"):
        with contextlib.suppress(FileNotFoundError), path.open() as file:  # compaction removes some
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def time_steps(batches, steps, grads, tables, before_each=lambda: None):
    """Medians of a step's milliseconds, and of the records that it reads."""
    trained, sample = tables
    times, reads = [], []
    for _ in range(steps):
        ids = np.fromfile(batches, np.int64, BATCH)
        before_each()
        read, start = reads_so_far(), time.perf_counter()
        trained.step(ids, grads)
        times.append((time.perf_counter() - start) * 1e3)
        reads.append(reads_so_far() - read)
        sample.step(ids, grads)
    return statistics.median(times), statistics.median(reads)


def train_in_memory(num_rows, limit, path):
    """Makes rows in memory alone as long as there is any. A file says how many there are."""
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    import tensorflow as tf

    trained, grads = Trained(), make_gradients(BATCH)
    with contextlib.suppress(MemoryError, tf.errors.ResourceExhaustedError):
        for made in make_rows(num_rows, grads, trained):
            pathlib.Path(path).write_text(str(made))


def train_beyond(num_rows, limit, steps, path, folder):
    """Makes all rows over memory and disk, trains on, and compares. Returns what is to be said."""
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    import keras_sparse

    sizes = [limit // FIRST_TIER, capacity_of(num_rows)]
    trained = Trained(keras_sparse.StorageOption("DRAM_SSDHASH", folder, sizes))
    grads, sample = make_gradients(BATCH), Sample(sample_keys(num_rows))
    memory, seconds = watch(make_rows(num_rows, grads, trained, sample), num_rows, trained.table)
    tables = (trained, sample)
    with open(path, "rb") as batches:
        time_steps(batches, steps, grads, tables)
        step = time_steps(batches, steps, grads, tables)
        uncached_step = time_steps(batches, steps, grads, tables, lambda: drop_cached(folder))
    equal = [sample.count_equal(trained)]
    for each in tables:  # a step more tells of the slots
        each.step(sample.keys, grads[: len(sample.keys)])
    equal.append(sample.count_equal(trained))
    return {
        "rows": trained.table.num_rows,
        "rows_a_second": num_rows / seconds,
        "tiers": trained.table.stats()["tiers"],
        "grown": growth(memory),
        "private": resident_bytes("VmData"),
        "peak": resident_bytes("VmHWM"),
        "files": sum(path.stat().st_blocks * 512 for path in pathlib.Path(folder).rglob("*.seg")),
        "step": step,
        "uncached_step": uncached_step,
        "sampled": len(sample.keys),
        "equal": min(equal),
    }


def measure(options):
    """Returns the rows that memory alone comes to, and what `train_beyond` says."""
    os.environ.update(dict.fromkeys(THREADS, "2"))
    limit = int(options.limit * 2**30)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        in_memory, batches = pathlib.Path(folder, "in_memory"), f"{folder}/batches"
        in_memory.write_text("0")
        with contextlib.suppress(BrokenProcessPool):  # where it was native code that had no memory
            in_fresh_process(train_in_memory, options.rows, limit, in_memory)
        in_fresh_process(draw_batches, options.rows, options.steps, batches)
        try:
            beyond = in_fresh_process(
                train_beyond, options.rows, limit, options.steps, batches, f"{folder}/rows"
            )
        except BrokenProcessPool as error:
            raise RuntimeError(
                "`--limit` must leave room for a batch, beside TensorFlow, the first tier and the "
                f"index, or the process ends. Received: limit={options.limit}"
            ) from error
        return int(in_memory.read_text()), beyond


def main(arguments=None):
    options = parse(arguments)
    in_memory, beyond = measure(options)
    first, last = beyond["tiers"]["DRAM"], beyond["tiers"]["SSDHASH"]
    index = last["memory_bytes"] / max(1, last["rows"])
    facts = {
        "rows made": (f"{in_memory:,}", f"{beyond['rows']:,}"),
        "rows and slots, MiB": [mib(rows * RECORD_BYTES) for rows in (in_memory, beyond["rows"])],
        "limit of the process, MiB": [mib(options.limit * 2**30)] * 2,
        "most resident, with libraries, MiB": ("", mib(beyond["peak"])),
        "private memory at the end, MiB": ("", mib(beyond["private"])),
        "first tier, MiB": ("", mib(first["bytes"])),
        "files, MiB": ("", mib(beyond["files"])),
        "index of the last tier, bytes a row": ("", f"{index:.1f}"),
        "resident growth, bytes a row": ("", f"{beyond['grown']:.1f}"),
        "rows made a second": ("", f"{beyond['rows_a_second']:,.0f}"),
    }
    for name, key in (("", "step"), (" with no file cached", "uncached_step")):
        milliseconds, reads = beyond[key]
        facts[f"a step{name}, ms; records read"] = ("", f"{milliseconds:.0f}; {reads:,.0f}")
    facts["sampled rows as in memory alone"] = ("", f"{beyond['equal']:,} of {beyond['sampled']:,}")
    rows = [[name, *cells] for name, cells in facts.items()]
    table = markdown(["", "DRAM", "DRAM_SSDHASH"], rows)
    return show(TITLE, f"{options.rows:,} rows asked for.\n\n{table}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # leaves no file behind either
    main()
