import numpy as np
import tensorflow as tf

from keras_sparse import native

_CHUNK_ROWS = 65536


def table_statistics(table, frequencies):
    """Returns the dict that `LocalTable.stats` describes."""
    with tf.init_scope():
        counts = native.table_stats([table])[0].numpy()
        tiers, tier_counts = (tensor.numpy() for tensor in native.tier_stats(table))
        staging = native.staging_stats([table])[0].numpy()
    stats = _named(native.STATISTICS, counts, "waited")
    stats["tiers"] = {
        tier.decode().upper(): _named(native.TIER_STATISTICS, numbers, "busy")
        for tier, numbers in zip(tiers, tier_counts, strict=True)
    }
    prefetch = _named(native.STAGING_STATISTICS, staging, "waited", "hidden")
    prefetch["staleness_mean"] = prefetch.pop("staleness_sum") / max(1, prefetch["used"])
    stats["prefetch"] = prefetch
    if frequencies:
        stats["frequencies"] = _rows_by_frequency(table)
    return stats


def _rows_by_frequency(table):
    """Counts rows by the highest bit of their frequencies, where the table keeps them."""
    if not table.metadata.frequencies:
        return None
    of_lengths = np.zeros(33, np.int64)
    for piece in table.export_pieces(_CHUNK_ROWS):
        lengths = np.frexp(piece.frequencies.astype(np.float64))[1]
        of_lengths += np.bincount(lengths, minlength=len(of_lengths))
    used = np.flatnonzero(of_lengths)
    num_lengths = int(used[-1]) + 1 if len(used) else 0
    return {2**length // 2: int(of_lengths[length]) for length in range(num_lengths)}


def _named(names, numbers, *durations):
    """Returns numbers by their names, and durations in seconds."""
    stats = dict(zip(names, numbers.tolist(), strict=True))
    for name in durations:
        stats[f"{name}_seconds"] = stats.pop(f"{name}_ns") / 1e9
    return stats
