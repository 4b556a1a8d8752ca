import tensorflow as tf

from keras_sparse.native.staging import STAGING_STATISTICS
from keras_sparse.native.staging import staging_stats
from keras_sparse.native.statistics import STATISTICS
from keras_sparse.native.statistics import table_stats
from keras_sparse.native.statistics import TIER_STATISTICS
from keras_sparse.native.statistics import tier_stats


def variable_statistics(variable):
    """Returns the dict that `EmbeddingVariable.stats` describes."""
    with tf.init_scope():
        counts = table_stats([variable])[0].numpy()
        tiers, tier_counts = (tensor.numpy() for tensor in tier_stats(variable))
        staging = staging_stats([variable])[0].numpy()
    stats = _named(STATISTICS, counts, "waited")
    stats["tiers"] = {
        tier.decode().upper(): _named(TIER_STATISTICS, numbers, "busy")
        for tier, numbers in zip(tiers, tier_counts, strict=True)
    }
    prefetch = _named(STAGING_STATISTICS, staging, "waited", "hidden")
    prefetch["staleness_mean"] = prefetch.pop("staleness_sum") / max(1, prefetch["used"])
    stats["prefetch"] = prefetch
    return stats


def _named(names, numbers, *durations):
    """Returns numbers by their names, and durations in seconds."""
    stats = dict(zip(names, numbers.tolist(), strict=True))
    for name in durations:
        stats[f"{name}_seconds"] = stats.pop(f"{name}_ns") / 1e9
    return stats
