from keras_sparse.native import library as _native

TIER_STATISTICS = (
    "rows",
    "bytes",
    "memory_bytes",
    "hits",
    "misses",
    "promotions",
    "demotions",
    "read_bytes",
    "write_bytes",
    "compacted_bytes",
    "busy_ns",
)


def tier_stats(variable):
    """Reads what is in each tier of a table, and what the tiers have done.

    Waits until rows on their way to a lower tier are there.

    Args:
        variable: `EmbeddingVariable`.

    Returns:
        `(tiers, stats)`: string tensor of shape `(num_tiers,)`, the tiers' names from the first one
        down, and int64 tensor of shape `(num_tiers, 11)`: the numbers that `TIER_STATISTICS` names,
        in its order. `EmbeddingVariable.stats` says what they are.
    """
    return _native.lib.keras_sparse_tier_stats(handles=[variable.native])
