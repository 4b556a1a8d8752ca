import tensorflow as tf

from keras_sparse.distribute.ranks.runtime import folder_of_rank
from keras_sparse.native import library as _native
from keras_sparse.native._initializers import initializer_attributes
from keras_sparse.native.load_tier import load_tier

_MAX_LOWER_TIERS = 2


def create_tables(
    names, input_dims, output_dims, initial_rows, out_of_range, storages, keeps_ages=None
):
    """Makes native tables. A table lives as long as a tensor that holds its handle, or its `Owner`.

    Args:
        names: List of strings, which messages name the tables by.
        input_dims: List of integers, or `None` for a dynamic table.
        output_dims: List of integers. Widths of the rows.
        initial_rows: List of `keras_sparse.tables.initial_rows.InitialRows`.
        out_of_range: List of `"error"` or `"zero"`: what a static table does with an id outside
            `[0, input_dim)`.
        storages: List of `keras_sparse.StorageOption`.
        keeps_ages: List of booleans: whether a dynamic table remembers when each row had its last
            gradient. Defaults to `None`: no table does.

    Returns:
        List of handles: eager scalar tensors of dtype resource.
    """
    for tier in {tier for storage in storages for tier in storage.lower_tiers}:
        load_tier(tier)
    with tf.init_scope():
        return _native.lib.keras_sparse_create_tables(
            names=names,
            input_dims=[-1 if dim is None else dim for dim in input_dims],
            output_dims=output_dims,
            **initializer_attributes(initial_rows),
            out_of_range=out_of_range,
            lower_tiers=[
                tier.lower()
                for storage in storages
                for tier in _padded(storage.lower_tiers, _MAX_LOWER_TIERS, "")
            ],
            storage_sizes=[
                size
                for storage in storages
                for size in _padded(storage.sizes, 1 + _MAX_LOWER_TIERS, 0)
            ],
            storage_paths=[_folder(storage.storage_path) for storage in storages],
            cache_strategies=[storage.cache_strategy for storage in storages],
            keeps_gradient_steps=[False] * len(names) if keeps_ages is None else keeps_ages,
            N=len(names),
        )


def _folder(path):
    """A table's own folders are numbered within its process, so that ranks must not share one."""
    return "" if path is None else folder_of_rank(path)


def _padded(values, length, value):
    return [*values, *[value] * (length - len(values))]
