from keras_sparse.ops import _native

STATISTICS = (
    "rows",
    "bytes",
    "lookups",
    "hits",
    "created_rows",
    "out_of_range_ids",
    "waited_ns",
)


def table_stats(variables):
    """Reads the statistics that tables count.

    Args:
        variables: List of `EmbeddingVariable`.

    Returns:
        int64 tensor of shape `(num_tables, 7)`: the numbers that `STATISTICS` names, in its order.
        `hits` are looked-up ids that had a row; `created_rows` were made by gradients;
        `waited_ns` are nanoseconds that ops have waited for lower tiers.
    """
    return _native.lib.keras_sparse_stats(handles=[variable.native for variable in variables])
