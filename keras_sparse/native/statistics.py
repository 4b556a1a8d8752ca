"""Ops that tell what tables and their tiers have done."""

from keras_sparse.native import library
from keras_sparse.native.check_tables import check_tables
from keras_sparse.native.check_tables import handles_of
from keras_sparse.native.device_groups import on_each_device

STATISTICS = (
    "rows",
    "bytes",
    "lookups",
    "hits",
    "created_rows",
    "out_of_range_ids",
    "filtered_ids",
    "waiting_keys",
    "filter_bytes",
    "waited_ns",
    "evicted_rows",
    "peak_first_tier_bytes",
)


def table_stats(variables):
    """Reads the statistics that tables count.

    Args:
        variables: List of `EmbeddingVariable`.

    Returns:
        int64 tensor of shape `(num_tables, 12)`: the numbers that `STATISTICS` names, in its order.
        `hits` are looked-up ids that had a row; `created_rows` were made by gradients. Of the
        admission filter: `filtered_ids` are gradients that it dropped, `waiting_keys` those that it
        has counted and not admitted yet, or of a `CBFFilter` about how many it has counted,
        `filter_bytes` its memory, which is not among `bytes`.
        `waited_ns` are nanoseconds that ops have waited for lower tiers; `evicted_rows` have gone
        by an eviction policy; `peak_first_tier_bytes` is the most that the first tier has held,
        also within an update.
    """
    check_tables(variables)
    return on_each_device(
        lambda tables: library.lib.keras_sparse_stats(handles=handles_of(tables)), variables
    )


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
    return library.lib.keras_sparse_tier_stats(handles=[variable.native])
