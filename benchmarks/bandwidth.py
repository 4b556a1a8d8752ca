"""How fast can memory be read here, and what would a step cost if it did nothing else?

    python -m benchmarks.bandwidth

The bytes of a step are the least that must move: each distinct row of the batch is read once (and
record written back, when updated), outputs are written, gradients and ids read. Rows and records
are charged at the bandwidth of random reads, the rest at that of reading in order.
"""

import argparse
import ctypes
import os
import statistics
import time

import numpy as np

from benchmarks import workloads
from benchmarks.peers import floor

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


def main(arguments=None):
    parser = argparse.ArgumentParser(description=TITLE)
    parser.add_argument("--workload-scale", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=2)
    options, _ = parser.parse_known_args(arguments)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    rates = measure_rates()
    lines = ["| read | 4 KiB pages, GB/s | huge pages, GB/s |", "|---|---|---|"]
    for what, row_bytes in (("in order", None), ("at random", 128), ("at random", 256)):
        name = f"rows of {row_bytes} bytes at random" if row_bytes else "in order"
        cells = [f"{rates[what, row_bytes, huge]:.1f}" for huge in (False, True)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "| MB a step, ms at these rates | " + " | ".join(SLOTS) + " |",
        "|---" * (1 + len(SLOTS)) + "|",
    ]
    for name in ("w1", "w2", "w3"):
        workload = workloads.NAMES[name](options.workload_scale)
        cells = []
        for column in SLOTS:
            at_random, in_order = bytes_of_step(workload, column)
            rate = rates["at random", workload.output_dim * 4, True] * 1e6
            ms = at_random / rate + in_order / (rates["in order", None, True] * 1e6)
            cells.append(f"{(at_random + in_order) / 1e6:.0f}, {ms:.2g}")
        lines.append(f"| {name.upper()} | " + " | ".join(cells) + " |")
    print(f"{TITLE}\n\n" + "\n".join(lines) + "\n", flush=True)
    return "\n".join(lines)


if __name__ == "__main__":
    main()
