import numpy as np


def reuse_distances(keys, step_sizes):
    """Returns how far down its row lies, for each touch of a row that was touched before.

    Rows stand in a stack: those of the last step on top, of one step the greater key above. A tier
    of `n` rows that gives away the least recently used ones holds the `n` upper ones, whatever `n`
    is: so the distances give the hits of all sizes at once (Mattson, Gecsei, Slutz and Traiger,
    "Evaluation techniques for storage hierarchies", IBM Systems Journal 9, 1970). The stack is
    looked at as it is when a step begins: a step keeps all its rows until it is over.

    With `before[j]` the touch of the same row before touch `j`, the rows above one that was last
    touched at `i` are the touches `j > i`, before this step, with `before[j] < i`. All of them are
    counted together, in O(n log n).

    Args:
        keys: int64 array of shape `(n,)`, in the order of the steps, in each step distinct and
            ascending.
        step_sizes: Integer array of shape `(num_steps,)`: how many keys each step has.

    Returns:
        int64 array of shape `(n - number of distinct keys,)`: rows above the touched one, 0 for the
        top, in no order that means something.
    """
    order = np.argsort(keys, kind="stable")
    is_same = keys[order[1:]] == keys[order[:-1]]
    earlier, later = order[:-1][is_same], order[1:][is_same]
    # By the earlier touch, so that the counting goes through memory mostly forwards.
    by_earlier = np.argsort(earlier)
    earlier, later = earlier[by_earlier], later[by_earlier]
    next_of_before = np.zeros(len(keys), np.int64)  # before[j] + 1, and 0 for a first touch
    next_of_before[later] = earlier + 1
    step_begins = np.repeat(np.cumsum(step_sizes) - step_sizes, step_sizes)
    # All touches up to `earlier` are among those counted: a touch lies after the one before it.
    return _count_below(next_of_before, step_begins[later], earlier + 1) - (earlier + 1)


def _count_below(values, ends, limits):
    """Counts, for each query, the values below a limit in the front part of an array.

    The queries walk down a wavelet matrix together, a bit of the values at a time (Claude, Navarro
    and Ordóñez, "The wavelet matrix", Information Systems 47, 2015); no level is kept.

    Args:
        values: Integer array of shape `(n,)`, from 0 to `n`.
        ends, limits: Integer arrays of shape `(num_queries,)`, from 0 to `n`.

    Returns:
        int64 array of shape `(num_queries,)`: for each how many of `values[:end]` are below its
        limit.
    """
    dtype = np.int32 if len(values) < 2**31 - 1 else np.int64  # half the memory to go through
    values, lasts, limits = (each.astype(dtype) for each in (values, ends, limits))
    firsts = np.zeros_like(lasts)
    counts = np.zeros(len(lasts), np.int64)
    zeros_before = np.zeros(len(values) + 1, dtype)
    for bit in reversed(range(len(values).bit_length())):
        # A query's values share their higher bits with its limit. They stand together, from its
        # `first` to its `last`. Where the limit has a 1, all that have a 0 are below it.
        has_one = (values >> bit & 1).astype(bool)
        np.cumsum(~has_one, out=zeros_before[1:])
        first_zeros, last_zeros = zeros_before[firsts], zeros_before[lasts]
        goes_right = (limits >> bit & 1).astype(bool)
        counts += np.where(goes_right, last_zeros - first_zeros, 0)
        # Zeros to the front, ones behind them, each in their order.
        num_zeros = zeros_before[-1]
        firsts = np.where(goes_right, num_zeros + firsts - first_zeros, first_zeros)
        lasts = np.where(goes_right, num_zeros + lasts - last_zeros, last_zeros)
        values = np.concatenate((values[~has_one], values[has_one]))
    return counts
