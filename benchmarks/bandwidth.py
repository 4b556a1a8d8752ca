"""How fast can memory be read here, and what would a step cost if it did nothing else?

    python -m benchmarks.bandwidth

The bytes of a step are the least that must move: each distinct row of the batch is read once (and
record written back, when updated), outputs are written, gradients and ids read. Rows and records
are charged at the bandwidth of random reads, the rest at that of reading in order.
"""

import ctypes
import os
import statistics
import time

import numpy as np

from benchmarks import workloads
from benchmarks.peers import floor
from benchmarks.report import markdown
from benchmarks.report import options_of
from benchmarks.report import show

TITLE = "Memory bandwidth and bytes of a step"
BYTES = 2 << 30
SLOTS = {"forward": 0, "sgd": 0, "adagrad": 1, "lazy_adam": 2, "adam": 2}


def best_rate(function, num_bytes):
    """GB/s of the median of nine runs."""
    times = []
    for _ in range(9):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return num_bytes / statistics.median(times) / 1e9


def measure_rates(widths=(128, 256)):
    """GB/s by (what, row bytes, huge pages); rows are of as many bytes as `widths` says."""
    library = floor.shared_library()
    generator = np.random.default_rng(0)
    rates = {}
    for huge in (True, False):
        memory = ctypes.c_void_p(library.FloorMap(ctypes.c_int64(BYTES), int(huge)))
        in_order = lambda: library.FloorReadInOrder(memory, ctypes.c_int64(BYTES))  # noqa: B023, E731
        rates["in order", None, huge] = best_rate(in_order, BYTES)
        for row_bytes in widths:
            rows = generator.integers(0, BYTES // row_bytes, 1 << 20)
            pointer = rows.ctypes.data_as(ctypes.c_void_p)
            size = (ctypes.c_int64(row_bytes // 4), pointer, ctypes.c_int64(len(rows)))
            at_random = lambda: library.FloorReadAtRandom(memory, *size)  # noqa: B023, E731
            rates["at random", row_bytes, huge] = best_rate(at_random, len(rows) * row_bytes)
        library.FloorUnmap(memory, ctypes.c_int64(BYTES))
    return rates


def bytes_of_step(workload, column):
    """Mean over the batches: bytes of rows and records, bytes that stream."""
    row = workload.output_dim * 4
    distinct = np.mean([sum(len(np.unique(ids)) for ids in batch) for batch in workload.ids])
    num_ids = np.mean([sum(len(ids) for ids in batch) for batch in workload.ids])
    outputs = workload.num_tables * workload.num_rows_out * row
    if column == "forward":
        return distinct * row, outputs + 8 * num_ids
    record = row * (1 + SLOTS[column])
    read = record if column == "adam" else row  # whose moments a lookup needs
    return distinct * (read + 2 * record), 2 * (outputs + 8 * num_ids)


def bytes_and_ms(workload, column, rates):
    """A cell: megabytes of a step, and the milliseconds that they take at least."""
    at_random, in_order = bytes_of_step(workload, column)
    ms = at_random / rates["at random", workload.output_dim * 4, True]
    ms += in_order / rates["in order", None, True]
    return f"{(at_random + in_order) / 1e6:.0f}, {ms / 1e6:.2g}"


def main(arguments=None):
    options = options_of(__doc__, arguments, workload_scale=1.0, threads=2)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    rates = measure_rates()
    reads = {"in order": ("in order", None)}
    reads |= {f"rows of {n} bytes at random": ("at random", n) for n in (128, 256)}
    rows = [
        [name, *(f"{rates[what, row_bytes, huge]:.1f}" for huge in (False, True))]
        for name, (what, row_bytes) in reads.items()
    ]
    text = markdown(["read", "4 KiB pages, GB/s", "huge pages, GB/s"], rows)
    rows = []
    for name, make in workloads.NAMES.items():
        workload = make(options.workload_scale)
        cells = [bytes_and_ms(workload, column, rates) for column in SLOTS]
        rows.append([name.upper(), *cells])
    text += "\n\n" + markdown(["MB a step, ms at these rates", *SLOTS], rows)
    return show(TITLE, text)


if __name__ == "__main__":
    main()
