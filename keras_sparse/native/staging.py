import contextlib
import contextvars
from typing import Any

import tensorflow as tf

from keras_sparse.native import library
from keras_sparse.native.check_tables import check_tables
from keras_sparse.native.check_tables import handles_of
from keras_sparse.native.device_groups import device_groups
from keras_sparse.native.device_groups import on_each_device
from keras_sparse.native.table_device import table_device

# What is staged for a table and what became of it, as `staging_stats` gives it.
STAGING_STATISTICS = (
    "staged",
    "used",
    "missed",
    "dropped",
    "waited_ns",
    "hidden_ns",
    "staleness_sum",
    "staleness_max",
)

# The list that lookups are collected in, and the graph in which. Between who collects and a lookup
# are a user's model and Keras' layers.
_collected: contextvars.ContextVar[tuple[Any, Any]] = contextvars.ContextVar(
    "collected", default=(None, None)
)


@contextlib.contextmanager
def collect_lookups():
    """Collects the lookups of this thread in place of doing them; they give rows of zeros.

    Returns:
        Context manager of a list, which gets a dict of the arguments of each call of `lookup`.
    """
    lookups: list[dict] = []
    token = _collected.set((lookups, tf.compat.v1.get_default_graph()))
    try:
        yield lookups
    finally:
        _collected.reset(token)


def collected_lookups():
    """Returns the list that lookups are to be added to here, or `None`.

    Raises:
        ValueError: They are collected outside of the graph that this lookup is in.
    """
    lookups, graph = _collected.get()
    if lookups is not None and graph is not tf.compat.v1.get_default_graph():
        raise ValueError(
            "`prefetch_lookups` must find lookups outside of a `tf.function`, `tf.cond` or loop, "
            "whose tensors it cannot take ahead. Name what it should find by `select`. Received: a "
            "lookup in one of these"
        )
    return lookups


def lookups_by_memory(lookups):
    """Sorts lookups by where their tables are, as a stage has those of one memory.

    Args:
        lookups: List of dicts of the arguments of `lookup`, each complete.

    Returns:
        Dict of lists of lookups: of tables in GPU memory by `True`, in memory by `False`. A lookup
        of tables in both is one of each, as it is done.
    """
    found: dict[bool, list] = {}
    lists = ("variables", "ids", "row_splits", "weights", "combiners")
    for arguments in lookups:
        groups = device_groups(arguments["variables"])
        for group in groups:
            part = {name: [arguments[name][i] for i in group] for name in lists}
            joined = arguments["joined"] and len(groups) == 1
            is_on_gpu = part["variables"][0].is_on_gpu
            found.setdefault(is_on_gpu, []).append(arguments | part | {"joined": joined})
    return found


def create_lookup_stage(num_threads=0, capacity=0, on_gpu=False):
    """Makes a stage, which does what comes before lookups ahead of their steps.

    Args:
        num_threads: Integer. Threads of the stage: how many batches are in work at once. Defaults
            to 0: as many as it takes, from 1 upward, until steps need not wait.
        capacity: Integer. How many batches are ready or in work at most. Defaults to 0, likewise.
        on_gpu: Boolean. Whether it is for tables in GPU memory. Defaults to `False`.

    Returns:
        Handle: eager scalar tensor of dtype resource. The stage ends with the last tensor that
        holds it.
    """
    with tf.init_scope(), tf.device(table_device(on_gpu)):
        return library.lib.keras_sparse_create_lookup_stage(
            num_threads=num_threads, capacity=capacity
        )


def lookup_stage_state(stage):
    """Returns how a stage works now: int64 tensor of `num_threads`, `capacity`, batches staged."""
    return library.lib.keras_sparse_lookup_stage_state(stage=stage)


def stage_lookups(stage, batch, lookups, reads_rows):
    """Gives the lookups of a batch to a stage, and returns at once.

    `keras_sparse.ops.lookup` of the same tables, ids, bags and weights then uses what was made
    ready; if nothing was, it does what it does without.

    Args:
        stage: Handle that `create_lookup_stage` gave.
        batch: int64 scalar. The number of the batch in its data, for errors.
        lookups: List of dicts of the arguments of `lookup`, each complete, of tables in the memory
            that the stage is for.
        reads_rows: Boolean. Whether to read the rows too: a step may then use rows that have missed
            updates, as many as the stage has threads and capacity at most. Otherwise what lies in
            lower tiers is read, and the step sees every row as it is.

    Returns:
        `tf.Operation`, or `None` outside of a graph.
    """
    parts: dict[str, list] = {
        name: [] for name in ("handles", "ids", "row_splits", "weights", "combiners")
    }
    # Of rows in first tiers alone there is nothing to be made ready but the rows themselves.
    if not reads_rows:
        lookups = [
            each for each in lookups if any(v.storage.lower_tiers for v in each["variables"])
        ]
    if not lookups:
        return None if tf.executing_eagerly() else tf.no_op()
    for arguments in lookups:
        parts["handles"] += [variable.native for variable in arguments["variables"]]
        for name in ("ids", "row_splits", "weights", "combiners"):
            parts[name] += arguments[name]
    return library.lib.keras_sparse_stage_lookups(
        stage=stage,
        batch=batch,
        **parts,
        are_joined=[arguments["joined"] for arguments in lookups],
        out_types=[tf.as_dtype(arguments["dtype"]) for arguments in lookups],
        lookup_sizes=[len(arguments["ids"]) for arguments in lookups],
        reads_rows=reads_rows,
    )


def staging_stats(variables):
    """Reads what became of the lookups that were staged.

    Args:
        variables: List of `EmbeddingVariable`.

    Returns:
        int64 tensor of shape `(num_tables, 8)`: the numbers that `STAGING_STATISTICS` names, in its
        order, of the lookups of which a table is the first. `staged` lookups, of which steps have
        `used` some and others were `dropped`; `missed` lookups, since the first was staged, that a
        step had to do by itself; nanoseconds that steps have waited for staged lookups, and those
        that the used ones took beyond that; updates that the rows of used lookups had missed, over
        all of them and at most.
    """
    check_tables(variables)
    return on_each_device(
        lambda tables: library.lib.keras_sparse_staging_stats(handles=handles_of(tables)), variables
    )
