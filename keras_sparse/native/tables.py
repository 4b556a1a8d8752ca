"""Ops that make native tables and set what they do."""

import ctypes
import os
import pathlib
import weakref

import tensorflow as tf
from tensorflow.python.eager import context

from keras_sparse.native import library
from keras_sparse.native.check_tables import check_tables
from keras_sparse.native.check_tables import handles_of
from keras_sparse.native.device_groups import on_each_device
from keras_sparse.native.table_device import check_gpu
from keras_sparse.native.table_device import table_device

_MAX_LOWER_TIERS = 3


def initializer_attributes(initial_rows):
    """Returns the attributes by which native ops take a list of `InitialRows`, as a dict."""
    return {
        "initializers": [rows.kind for rows in initial_rows],
        "initializer_args": [arg for rows in initial_rows for arg in (rows.a, rows.b)],
        "seeds": [rows.seed for rows in initial_rows],
        "initializer_parts": [
            number
            for rows in initial_rows
            for number in (rows.first_column, rows.key_stride, rows.key_offset)
        ],
    }


def wrapped_seed(seed):
    """Returns the int64 that has the low 64 bits of an integer."""
    return (seed + 2**63) % 2**64 - 2**63


def create_tables(
    names,
    input_dims,
    output_dims,
    initial_rows,
    out_of_range,
    storages,
    metadata,
    folders=None,
    shards=None,
    dtypes=None,
):
    """Makes native tables. A table lives as long as a tensor that holds its handle, or its `Owner`.

    Args:
        names: List of strings, which messages name the tables by.
        input_dims: List of integers, or `None` for a dynamic table.
        output_dims: List of integers. Widths of the rows.
        initial_rows: List of `keras_sparse.tables.initial_rows.InitialRows`.
        out_of_range: List of `"error"` or `"zero"`: what a static table does with an id outside
            `[0, input_dim)`.
        storages: List of `keras_sparse.StorageOption`: all with the first tier on a GPU, or none.
        metadata: List of `keras_sparse.tables.table.RowMetadata`.
        folders: List of strings: where the lower tiers of each table are; empty for nowhere. They
            are numbered within a process, so that ranks must not share one. Defaults to `None`:
            as `storages` say.
        shards: List of `(shard, num_shards)`: a dynamic table owns the keys with `key % num_shards
            == shard`, and refuses others. Defaults to `None`: all keys.
        dtypes: List of `keras_sparse.utils.row_dtypes.RowDtypes`. Defaults to `None`: float32.

    Returns:
        List of handles: eager scalar tensors of dtype resource.

    Raises:
        NotImplementedError: They are to be on a GPU, and there is none.
    """
    for tier in {tier for storage in storages for tier in storage.lower_tiers}:
        load_tier(tier)
    are_on_gpu = [storage.is_on_gpu for storage in storages]
    if any(are_on_gpu):
        check_gpu(storages[are_on_gpu.index(True)].storage_type)
    with tf.init_scope(), tf.device(table_device(any(are_on_gpu))):
        return library.lib.keras_sparse_create_tables(
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
            storage_paths=folders or [storage.storage_path or "" for storage in storages],
            cache_strategies=[storage.cache_strategy for storage in storages],
            are_on_gpu=are_on_gpu,
            keeps_gradient_steps=[each.ages is not None for each in metadata],
            ages_in_seconds=[each.ages == "seconds" for each in metadata],
            keeps_frequencies=[each.frequencies for each in metadata],
            shards=[number for shard in shards or [] for number in shard],
            row_types=[each.row for each in dtypes or []],
            slot_types=[each.slots for each in dtypes or []],
            round_randomly=[each.rounding == "stochastic" for each in dtypes or []],
            N=len(names),
        )


def _padded(values, length, value):
    return [*values, *[value] * (length - len(values))]


def set_rule(variables, rule, constants, weight_decays):
    """Gives tables an update rule. Rows stay, slots get their initial values, steps begin anew.

    Args:
        variables: List of `EmbeddingVariable`.
        rule: String. Name of a native rule.
        constants: Dict of floats: the rule's hyperparameters by name.
        weight_decays: List of floats, one a table: how much of a row a step takes away, times the
            learning rate.

    Returns:
        `(generations, record_floats, slot_names)`: a list of integers, how often each table has
        been given a rule; a list of integers, the width of each table's records; a list of strings,
        what the rule keeps beside each row, in the order of the record.
    """
    with tf.init_scope():
        outputs = library.lib.keras_sparse_set_rule(
            handles=handles_of(variables),
            constants=tf.constant([float(c) for c in constants.values()], tf.float64),
            weight_decays=tf.constant([float(decay) for decay in weight_decays], tf.float64),
            rule=rule,
            constant_names=list(constants),
        )
        return (
            outputs.generations.numpy().tolist(),
            outputs.record_floats.numpy().tolist(),
            [name.decode() for name in outputs.slot_names.numpy().tolist()],
        )


def set_filter(variables, admission):
    """Gives dynamic tables an admission filter. What an earlier one remembered is forgotten.

    Args:
        variables: List of `EmbeddingVariable`.
        admission: A filter of `keras_sparse.storage`. Without a seed of its own it draws by that of
            each table's initial rows.
    """
    own = None if admission.seed is None else wrapped_seed(admission.seed)
    constants = admission.constants()
    default = admission.default_value_no_permission
    reads_initial_rows = default == "initializer"
    with tf.init_scope():
        library.lib.keras_sparse_set_filter(
            handles=handles_of(variables),
            constants=tf.constant([float(each) for each in constants.values()], tf.float64),
            filter=admission.kind,
            constant_names=list(constants),
            seeds=[each.initial_rows.seed if own is None else own for each in variables],
            reads_initial_rows=reads_initial_rows,
            default_value=0.0 if reads_initial_rows else default,
        )


def set_initial_rows(variables, initial_rows):
    """Changes what the rows that the tables do not hold read as, and what `clear` goes back to.

    Rows that are held stay as they are.

    Args:
        variables: List of `EmbeddingVariable`.
        initial_rows: List of `keras_sparse.tables.initial_rows.InitialRows`, one a variable.
    """
    with tf.init_scope():
        library.lib.keras_sparse_set_initial_rows(
            handles=handles_of(variables),
            **initializer_attributes(initial_rows),
        )


def set_row_limit(variables, max_rows, eviction=None):
    """Limits the rows of dynamic tables. An update that would make more is an error.

    Args:
        variables: List of `EmbeddingVariable`.
        max_rows: Integer. The most rows that each may have, in all tiers.
        eviction: A policy of `keras_sparse.storage`, by which rows go before such an update; none
            of those that it is for. Defaults to `None`: no row goes.
    """
    constants = {} if eviction is None else eviction.constants()
    with tf.init_scope():
        library.lib.keras_sparse_set_row_limit(
            handles=handles_of(variables),
            constants=tf.constant([float(each) for each in constants.values()], tf.float64),
            max_rows=max_rows,
            policy="" if eviction is None else eviction.kind,
            constant_names=list(constants),
        )


def clear_tables(variables):
    """Takes the tables back to before training: no rows, or each row its initial one.

    Args:
        variables: List of `EmbeddingVariable`.
    """
    check_tables(variables)
    return on_each_device(
        lambda tables: library.lib.keras_sparse_clear(handles=handles_of(tables)), variables
    )


def compact_tables(variables):
    """Leaves no byte of rows that have gone in files of the lower tiers of tables.

    Args:
        variables: List of `EmbeddingVariable`. One without files has nothing to do.
    """
    check_tables(variables)
    return on_each_device(
        lambda tables: library.lib.keras_sparse_compact(handles=handles_of(tables)), variables
    )


def table_sizes(variables):
    """Counts rows.

    Args:
        variables: List of `EmbeddingVariable`.

    Returns:
        int64 tensor of shape `(num_tables,)`: `input_dim` of a static table, the rows held by a
        dynamic one.
    """
    check_tables(variables)
    return on_each_device(
        lambda tables: library.lib.keras_sparse_size(handles=handles_of(tables)), variables
    )


# What each library of the system is called in Debian.
_PACKAGES = {"LEVELDB": "libleveldb1d", "PMEM": "libpmem1"}


def load_tier(tier):
    """Loads the store of a lower tier, if it needs a library of the system.

    Args:
        tier: String, such as `"LEVELDB"`.

    Raises:
        ImportError: The library is absent, or another version of it.
    """
    if tier not in _PACKAGES:
        return
    path = pathlib.Path(library.library_path).with_name(f"_keras_sparse_{tier.lower()}.so")
    try:
        ctypes.CDLL(str(path))  # whoever comes first; it registers itself, once
    except OSError as error:
        raise ImportError(
            f"The tier {tier} must find its library on this system. Install it (Debian: apt-get "
            f"install {_PACKAGES[tier]}), or take another tier. Received: {error}"
        ) from error


class Owner:
    """Holds a native object; when Python lets this go, the object goes.

    A handle alone would not do: TensorFlow keeps graphs, and a graph its handles, for as long as it
    likes: those of a custom gradient until the process ends. Ops that are at work end with the
    object as it was; later ones raise `tf.errors.FailedPreconditionError`.

    Args:
        handle: Eager scalar tensor of dtype resource: of a table or a vocabulary.
    """

    def __init__(self, handle):
        weakref.finalize(self, _drop, handle, os.getpid())

    def __deepcopy__(self, memo):
        return self  # as a copied handle is of the same object


def _drop(handle, process):
    # In a forked child TensorFlow's threads are missing, and the files are the parent's.
    if os.getpid() == process:
        # Wherever garbage is collected: perhaps while a graph is made.
        with context.eager_mode():
            library.lib.keras_sparse_drop(handle=handle)
