"""A step by the clocks of GPU and CPU: which kernels take its time, and what waits for what.

`record` traces steps (`ops/core/device/device_trace.h`), and `table` prints what it found:

- Our kernels, copies and fills: how many a step, the GPU's and the CPU's time, and the bytes that
  they have to move, each distinct row once, as a share of what a copy moves in that time.
- The time between them, in which the GPU runs TensorFlow's kernels or has nothing to do, and the
  part of it that passed before the CPU asked for our next work.
- The CPU's waits for all that the GPU has to do: how many, how long, and after which kernel. Waits
  for one copy alone, with later work queued by other threads, are listed with the kernels.

CUDA's events around each kernel take some microseconds: the traced step is longer than others, and
kernels of a few microseconds seem slower than they are.
"""

import collections
import ctypes
import itertools
import json
import re
import time

import numpy as np

MOST_IN_A_LANE = 256
# What a step looks up in tables of one width: rows of the tables; ids, bags and distinct rows of
# the step; ids of rows with more than MOST_IN_A_LANE gradients.
NUMBERS = ("rows", "ids", "bags", "distinct", "frequent")
# Bytes that a kernel has to move for these numbers, by the name of its function. `row` and `record`
# are the bytes of a row, and of it with its slots.
BYTES = {
    "StaticRowsKernel": lambda ids, **_: ids * (8 + 4),
    "DynamicRowsKernel": lambda ids, distinct, **_: ids * (8 + 4) + distinct * 128,
    "CheckBagsKernel": lambda bags, **_: bags * 8,
    "PoolKernel": lambda ids, bags, distinct, row, **_: ids * 4 + bags * (8 + row) + distinct * row,
    "RowsKernel": lambda ids, **_: ids * (4 + 4),
    "BagsKernel": lambda ids, bags, **_: bags * 8 + ids * 4,
    "CountKernel": lambda ids, **_: ids * 4,
    # Of each 8 bits all pairs are read and written; all bits are counted before.
    "SortPairs": lambda ids, rows, **_: ids * (4 + 16 * -(-rows.bit_length() // 8)),
    "OrderKernel": lambda ids, **_: ids * (4 + 4 + 8),
    "MarkBeginsKernel": lambda ids, **_: ids * (4 + 1),
    "Flagged": lambda ids, distinct, **_: ids + distinct * 4,
    "SumRunsKernel": lambda frequent, bags, row, **_: frequent * 8 + min(frequent, bags) * row,
    "UpdateKernel": lambda ids, frequent, bags, distinct, row, record, **_: (
        (ids - frequent) * 8 + bags * row + distinct * 2 * record
    ),
}


def ids_of_tables(model, ids, batch_size):
    """Returns arrays `(batch_size, hotness)`, one an input, by the table of a synthetic model.

    Args:
        ids: int64 array, flat, as `draw_batch` returns it.
    """
    of_table, first = collections.defaultdict(list), 0
    for table, hotness in model.inputs:
        last = first + batch_size * hotness
        of_table[table].append(ids[first:last].reshape(batch_size, hotness))
        first = last
    return of_table


def lookups_of(model, ids, batch_size, num_slots):
    """Returns the arguments of `BYTES` for a batch of a synthetic model, a dict for each width."""
    found = collections.defaultdict(list)
    for table, parts in ids_of_tables(model, ids, batch_size).items():
        counts = np.unique(np.concatenate([*map(np.ravel, parts)]), return_counts=True)[1]
        frequent = counts[counts > MOST_IN_A_LANE].sum()
        numbers = (model.tables[table].rows, counts.sum(), batch_size * len(parts), len(counts))
        found[model.tables[table].width].append((*numbers, frequent))
    return [
        {"row": 4 * width, "record": -(-4 * width * (1 + num_slots) // 32) * 32}
        | dict(zip(NUMBERS, np.sum(each, axis=0).tolist(), strict=True))
        for width, each in found.items()
    ]


def record(take_step, num_steps):
    """Traces steps after one that warms up. Returns facts that can be written as JSON.

    Args:
        take_step: Function of a step's number, which returns once the step is done.
    """
    from keras_sparse.native import library

    native = ctypes.CDLL(library.library_path)
    native.keras_sparse_stop_trace.restype = ctypes.c_char_p
    native.keras_sparse_start_trace()
    steps = []
    for i in range(num_steps + 1):
        begin = time.monotonic_ns()  # the clock of the trace
        take_step(i)
        steps.append((begin, time.monotonic_ns()))
    return named({"steps": steps[1:], "works": json.loads(native.keras_sparse_stop_trace())})


def named(facts):
    """The same with short names of kernels."""
    works = [each | {"name": short_name(each["name"])} for each in facts["works"]]
    return facts | {"works": works}


def short_name(name):
    """The function of a kernel, without its namespace, template arguments and parameters."""
    declared = re.match(r"(?:void )?(?:[\w:]|\(anonymous namespace\))*?(\w+)(?:<.*)?\(", name)
    return declared[1] if declared else name


def table(facts, copy_rate=None):
    """Returns lines of text.

    Args:
        facts: Of `record`, with `lookups`, a list of dicts of `lookups_of`.
        copy_rate: Float. GB/s that a copy on the GPU reads and writes, or `None`.
    """
    num_steps = len(facts["steps"])
    in_steps = [
        [each for each in facts["works"] if begin <= each["called"] < end]
        for begin, end in facts["steps"]
    ]
    by_name = collections.defaultdict(list)
    for each in (work for works in in_steps for work in works):
        by_name[each["name"]].append(each)
    waits = by_name.pop("wait", [])

    def ms(works, begin="began", end="ended"):
        return sum(each[end] - each[begin] for each in works) / num_steps / 1e6

    lines = [f"{'a step':24} {'times':>6} {'GPU ms':>8} {'CPU ms':>8} {'MB':>8} {'of a copy':>9}"]
    for name, works in sorted(by_name.items(), key=lambda item: -ms(item[1])):
        cells = f"{name:24} {len(works) / num_steps:6.4g} {ms(works):8.3f}"
        cells += f" {ms(works, 'called', 'returned'):8.3f}"
        moved = sum(each["bytes"] for each in works) / num_steps
        moved = moved or sum(BYTES[name](**each) for each in facts["lookups"] if name in BYTES)
        if moved:
            cells += f" {moved / 1e6:8.3f}"
        if name in BYTES and moved and copy_rate and ms(works):
            cells += f" {moved / ms(works) / 1e6 / copy_rate:9.0%}"
        lines.append(cells)
    ours = [work for works in by_name.values() for work in works]
    gaps = [gap for works in in_steps for gap in gaps_of(works)]
    step = sum(end - begin for begin, end in facts["steps"]) / num_steps / 1e6
    between, late = (sum(gap[i] for gap in gaps) / num_steps / 1e6 for i in range(2))
    longest = max(gaps, default=(0, 0, "nothing"))
    return "\n".join(
        [
            *lines,
            f"A step of {step:.3f} ms has {len(ours) / num_steps:.4g} of these, {ms(ours):.3f} ms "
            f"of the GPU; {step - ms(ours) - between:.3f} ms are before the first and after the "
            f"last.",
            f"Between them are {between:.3f} ms, {late:.3f} before the CPU asked for the next; the "
            f"longest of {longest[0] / 1e6:.3f} ms before {longest[2]}.",
            f"The CPU waits {len(waits) / num_steps:.4g} times, "
            f"{ms(waits, 'called', 'returned'):.3f} ms"
            + "".join(f"; {text}" for text in waits_of(in_steps)),
        ]
    )


def gaps_of(works):
    """Yields gaps of a step: ns, those of them before the CPU's call, and what ends the gap."""
    on_gpu = sorted((each for each in works if each["ended"]), key=lambda each: each["began"])
    for before, after in itertools.pairwise(on_gpu):
        gap = max(0, after["began"] - before["ended"])
        yield gap, min(gap, max(0, after["called"] - before["ended"])), after["name"]


def waits_of(in_steps):
    """Yields a text for each kernel after which the CPU waits."""
    after = collections.defaultdict(list)
    for works in in_steps:
        last = "the step begins"
        for each in works:
            if each["name"] == "wait":
                after[last].append(each["returned"] - each["called"])
            elif not each["bytes"]:
                last = each["name"]
    for name, times in after.items():
        number, ms = len(times) / len(in_steps), sum(times) / len(in_steps) / 1e6
        yield f"{number:.4g} after {name}, {ms:.3f}"
