import numpy as np


def merge_filters(layout, pieces, max_entries):
    """Yields what one admission filter remembers that takes over from those of several parts.

    Waiting keys are all there. Counters that keys share are the larger of both, so that no key is
    counted too low. What filters draw from is the same in all parts.

    Args:
        layout: Dict, `AdmissionFilter.layout` of all.
        pieces: Iterable of `(part, keys, counts)`: integer, arrays of int64 and of uint32.
        max_entries: Integer. About how many to yield at once.

    Yields:
        `(keys, counts)`.
    """
    kind = layout["kind"]
    if kind == "cbf":
        yield from _larger_counters(layout["counter_type"], pieces, max_entries)
        return
    first = None
    for part, keys, counts in pieces:
        first = part if first is None else first
        if kind == "counter" or part == first:
            yield keys, counts


def _larger_counters(counter_type, pieces, max_entries):
    # Halves of 64 bits by themselves: the number of the larger halves is not below either number.
    lanes = np.uint32 if counter_type == "uint64" else np.dtype(counter_type)
    words = np.zeros(0, np.uint32)
    for _, keys, counts in pieces:
        missing = int(keys.max()) + 1 - len(words)
        if missing > 0:
            words = np.concatenate([words, np.zeros(max(missing, len(words)), np.uint32)])
        larger = np.maximum(words[keys].view(lanes), np.ascontiguousarray(counts).view(lanes))
        words[keys] = larger.view(np.uint32)
    used = np.flatnonzero(words)
    num_words = 0 if len(used) == 0 else int(used[-1]) + 1
    for first in range(0, num_words, max_entries):
        end = min(first + max_entries, num_words)
        yield np.arange(first, end, dtype=np.int64), words[first:end]
