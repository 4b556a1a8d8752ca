"""What does a step cost when most rows are on disk?

    python -m benchmarks.storage_tiers [--keys 20000000] [--rounds 1] [--folder FOLDER]

W3's batches drawn from more keys: rows of 64, Adagrad, 26 keys a sample, no batch twice. Every key
has its row before the clock starts, and the first tier holds a tenth of them. The floor is the step
in memory alone, and the cold rows of the step at the rate at which this disk gives as many bytes at
random places, 32 reads at once. Both go through the page cache, which may have what they read, or
both past it (`KERAS_SPARSE_SSDHASH_DIRECT_IO`), where a read is of whole blocks and the disk has to
give all of them. With several rounds the cases take turns.
"""

import ctypes
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np

from benchmarks import workloads
from benchmarks.memory import DIM
from benchmarks.process import in_fresh_process
from benchmarks.report import markdown
from benchmarks.report import options_of
from benchmarks.report import say
from benchmarks.report import show
from benchmarks.training import import_rows
from benchmarks.training import make_storage
from benchmarks.training import RECORD_BYTES
from benchmarks.training import Trained

TITLE = "A step over memory and disk, ms"
# Tiers, the share of the keys that the first one holds, and whether it goes past the page cache.
CASES = [
    ("DRAM", 1.0, False),
    ("DRAM_SSDHASH", 1.2, False),
    ("DRAM_SSDHASH", 0.1, False),
    ("DRAM_LEVELDB", 0.1, False),
    ("DRAM_SSDHASH", 0.1, True),
]
HEAD = ["tiers", "first tier holds", "page cache", "step", "rounds", "to memory alone"]
HEAD += ["records read", "raw reads a second", "step to floor"]
WARM_STEPS, STEPS = 60, 40
DEPTH = 32
READS = 200_000
BLOCK_BYTES = 4096  # of direct I/O


def raw_reads_a_second(folder, num_bytes, direct):
    """The rate of random reads from the files of a folder."""
    files = sorted(str(path) for path in pathlib.Path(folder).rglob("*") if path.is_file())
    paths = (ctypes.c_char_p * len(files))(*(path.encode() for path in files))
    read = raw_reads_library().RawReads
    read.restype = ctypes.c_double
    seconds = read(
        paths, len(files), ctypes.c_int64(num_bytes), ctypes.c_int64(READS), DEPTH, direct
    )
    if seconds <= 0:
        raise OSError(f"could not read the files of '{folder}'")
    return READS / seconds


def raw_reads_library():
    source = pathlib.Path(__file__).with_name("raw_reads.cc")
    with tempfile.TemporaryDirectory() as build:
        library = pathlib.Path(build) / "raw_reads.so"
        command = ["g++", "-O2", "-std=c++17", "-shared", "-fPIC", "-o", library, source]
        subprocess.run([*command, "-lpthread"], check=True)
        return ctypes.CDLL(str(library))


def has_direct_io(folder):
    """Whether files of a folder can be read past the page cache."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            os.close(os.open(file.name, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        return False
    return True


def reads_so_far():
    """How often this process has asked for bytes of a file. Compaction asks for many at once."""
    facts = dict(
        line.split(": ") for line in pathlib.Path("/proc/self/io").read_text().splitlines()
    )
    return int(facts["syscr"])


def batches(num_keys, count):
    """Ids of batches, none of which is like another."""
    generator = np.random.default_rng(workloads.SEED)
    for _ in range(count):
        shape = workloads.BATCH_SIZE * 26
        yield workloads.scramble(workloads.zipf_ranks(generator, num_keys, shape))


def measure(storage_type, share, direct, num_keys, folder):
    """Returns steps in ms, records read a step, and raw reads a second: see above."""
    os.environ["KERAS_SPARSE_SSDHASH_DIRECT_IO"] = str(int(direct))
    import tensorflow as tf

    trained = Trained(make_storage(storage_type, share, num_keys, folder))
    import_rows(trained.table, num_keys)
    grads = tf.random.stateless_normal((workloads.BATCH_SIZE * 26, DIM), (1, 2))
    times, read = [], []
    for number, batch in enumerate(batches(num_keys, WARM_STEPS + STEPS)):
        ids = tf.constant(batch)
        before, start = reads_so_far(), time.perf_counter()
        trained.step(ids, grads)
        if number >= WARM_STEPS:
            times.append((time.perf_counter() - start) * 1e3)
            read.append(reads_so_far() - before)
    rate = None
    if storage_type == "DRAM_SSDHASH" and share < 1:
        trained.table.stats()  # when nothing is written any more, no file goes
        num_bytes = BLOCK_BYTES if direct else RECORD_BYTES + 12
        rate = raw_reads_a_second(folder, num_bytes, direct)
    return times, statistics.median(read), rate


def table(results):
    rows, in_memory = [], None
    for (storage_type, share, direct), rounds in results.items():
        step = statistics.median(time for times, _, _ in rounds for time in times)
        in_memory = in_memory or step
        cells = [storage_type, f"{min(share, 1):.0%}", "no" if direct else "yes", f"{step:.3g}"]
        cells.append(" ".join(f"{statistics.median(times):.3g}" for times, _, _ in rounds))
        rows.append([*cells, f"{step / in_memory:.2f}", *disk_cells(step, in_memory, rounds)])
    return markdown(HEAD, rows)


def disk_cells(step, in_memory, rounds):
    if rounds[0][2] is None:
        return [""] * 3
    records = statistics.median(read for _, read, _ in rounds)
    rate = statistics.median(rate for _, _, rate in rounds)
    return [f"{records:,.0f}", f"{rate:,.0f}", f"{step / (in_memory + records / rate * 1e3):.2f}"]


def main(arguments=None):
    options = options_of(__doc__, arguments, keys=20_000_000, rounds=1, folder=None)
    cases = CASES
    if not has_direct_io(options.folder or tempfile.gettempdir()):
        cases = [case for case in cases if not case[2]]
    results = {case: [] for case in cases}
    for number in range(options.rounds):
        for case in cases:
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                result = in_fresh_process(measure, *case, options.keys, folder)
            results[case].append(result)
            say(f"round {number + 1}, {case}: {statistics.median(result[0]):.3g} ms")
    facts = f"{options.keys:,} keys. Step: median of all, and of each round the median."
    return show(TITLE, f"{facts}\n\n{table(results)}")


if __name__ == "__main__":
    main()
