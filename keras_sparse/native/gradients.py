"""Ops that merge gradients and update rows."""

import tensorflow as tf

from keras_sparse.native import library
from keras_sparse.native.check_tables import check_tables
from keras_sparse.native.check_tables import check_variables
from keras_sparse.native.check_tables import handles_of
from keras_sparse.native.device_groups import device_groups
from keras_sparse.native.device_groups import on_each_device
from keras_sparse.native.on_cpu import constant


def merge_gradients(
    ids,
    values,
    row_splits=None,
    weights=None,
    combiners=None,
    columns=None,
    device="CPU:0",
    max_entries=None,
):
    """Sums the gradients of equal ids, for several tables at once.

    The order of the sums does not depend on the number of threads.

    Args:
        ids: List of int64 tensors of shape `(num_ids,)`.
        values: List of float32, float16 or bfloat16 tensors: gradients of rows, of shape
            `(num_ids, output_dim)`, or for pooled ids gradients of bags, of shape
            `(num_bags, output_dim)`.
        row_splits: List of int64 tensors of shape `(num_bags + 1,)`, or `None` for ids that were
            not pooled. Defaults to `None` for all.
        weights: List of float32 tensors of shape `(num_ids,)`, or `None` for weights of 1. Defaults
            to `None` for all.
        combiners: List of `"sum"`, `"mean"` or `"sqrtn"`, or `None` for ids that were not pooled.
            Defaults to `None` for all.
        columns: List of integer pairs `(first, number)`: the columns of each tensor of `values`
            that are its gradient. Defaults to `None`: all columns.
        device: String. Device of the op; a GPU takes gradients of tables in its memory. Defaults to
            `"CPU:0"`.
        max_entries: List of integers. Largest number of entries of an id in a result. An id has as
            many entries as it occurs, up to this number, one after the other: the first with the
            sum and the others with -0, so that an `admission` filter can count occurrences.
            Defaults to `None`: 1 for all.

    Returns:
        `(ids, sums)`: a list of int64 tensors of shape `(num_entries,)`, and a list of float32
        tensors of shape `(num_entries, output_dim)` with the gradient of each row.

    Example:
    >>> ids, sums = merge_gradients([tf.constant([7, 7], tf.int64)], [tf.ones((2, 3))])
    >>> sums[0].numpy()
    array([[2., 2., 2.]], dtype=float32)
    """
    row_splits, weights, combiners = with_defaults(len(ids), row_splits, weights, combiners)
    with tf.device(device):
        unique_ids, sums = library.lib.keras_sparse_merge_gradients(
            ids=ids,
            row_splits=row_splits,
            weights=weights,
            output_grads=values,
            combiners=combiners,
            columns=[first for first, _ in columns or ()],
            widths=[number for _, number in columns or ()],
            max_entries=max_entries or [],
        )
    return list(unique_ids), list(sums)


@tf.RegisterGradient("KerasSparseMergeGradients")
def _refuse_second_derivatives(operation, *grads):
    raise NotImplementedError(
        "The gradient of rows that were pooled or joined has no gradient of its own. For second "
        "derivatives, look rows up without a combiner and with output_mode='list', and pool or "
        f"join them in TensorFlow. Received: a gradient through {operation.type}"
    )


def with_defaults(num_tables, row_splits, weights, combiners):
    """Replaces missing arguments of native ops by empty tensors and `"none"`."""
    no_splits, no_weights = constant((), tf.int64), constant((), tf.float32)
    row_splits = [None] * num_tables if row_splits is None else row_splits
    weights = [None] * num_tables if weights is None else weights
    combiners = [None] * num_tables if combiners is None else combiners
    return (
        [no_splits if splits is None else splits for splits in row_splits],
        [no_weights if weight is None else weight for weight in weights],
        ["none" if combiner is None else combiner for combiner in combiners],
    )


def pack_slices(ids, values, scale=1.0):
    """Packs the gradients of several tables into one tensor for one exchange.

    Args:
        ids: List of int64 tensors of shape `(num_ids,)`, one per table.
        values: List of float32 tensors of shape `(num_ids, output_dim)`.
        scale: Float. Factor of the values. Defaults to 1.

    Returns:
        int32 tensor with one axis.
    """
    return library.lib.keras_sparse_pack_slices(ids=ids, values=values, scale=scale)


def unpack_slices(words, widths, num_ranks):
    """Unpacks the concatenated tensors that `num_ranks` ranks have packed.

    Args:
        words: int32 tensor with one axis.
        widths: List of integers: the `output_dim` of each table.
        num_ranks: Integer. Number of ranks.

    Returns:
        `(ids, values)`: a list of int64 tensors of shape `(num_ids,)` and a list of float32 tensors
        of shape `(num_ids, output_dim)`. The entries of a table are in the order of ranks.

    Example:
    >>> packed = pack_slices([tf.constant([7], tf.int64)], [tf.ones((1, 3))], scale=0.5)
    >>> ids, values = unpack_slices(tf.concat([packed, packed], axis=0), [3], num_ranks=2)
    >>> ids[0].numpy()
    array([7, 7])
    """
    ids, values = library.lib.keras_sparse_unpack_slices(
        words=words, N=len(widths), widths=widths, num_ranks=num_ranks
    )
    return list(ids), list(values)


def apply_gradients(
    variables, ids, values, numbers, row_splits=None, weights=None, combiners=None, columns=None
):
    """Updates rows in place by their gradients, and creates missing rows.

    Each row moves once, by the sum of its gradients. The call is one step of the rule of each
    table, even of a table without ids in it. If a table rejects the step, for an id out of its
    range or for lack of room for new rows, all tables stay unchanged, in CPU and GPU memory.

    Args:
        variables: List of `EmbeddingVariable`s. One may come several times, one after the other,
            with the gradients of several lookups, which have one dtype.
        ids: List of int64 tensors of shape `(num_ids,)`, one per variable. Repeated ids are
            allowed.
        values: List of float32, float16 or bfloat16 tensors: gradients of rows, of shape
            `(num_ids, output_dim)`, or for pooled ids gradients of bags, of shape
            `(num_bags, output_dim)`.
        numbers: float32 tensor of shape `(num_tables, num_numbers)`: the learning rate, followed by
            the other numbers that the rule of the table takes in a step (`rule_numbers()` of the
            optimizer).
        row_splits: List of int64 tensors of shape `(num_bags + 1,)`, or `None` for rows that were
            not pooled. Defaults to `None` for all.
        weights: List of float32 tensors of shape `(num_ids,)`, or `None` for weights of 1. Defaults
            to `None` for all.
        combiners: List of `"sum"`, `"mean"` or `"sqrtn"`, or `None` for rows that were not pooled.
            Defaults to `None` for all.
        columns: List of integer pairs `(first, number)`: the columns of each tensor of `values`
            that are its gradient. Defaults to `None`: all columns.

    Raises:
        tf.errors.FailedPreconditionError: Another optimizer was built on a table since this op was
            created, so its slots have changed.

    Example:
    >>> table = keras_sparse.EmbeddingVariable(10, 2, initializer="zeros")
    >>> keras_sparse.optimizers.SGD().build([table])  # names the rule
    >>> _ = keras_sparse.ops.apply_gradients(
    ...     [table], [tf.constant([3, 3], tf.int64)], [tf.ones((2, 2))],
    ...     numbers=tf.constant([[0.5]]))  # the learning rate
    >>> table.find([3]).rows
    array([[-1., -1.]], dtype=float32)
    """
    check_variables(variables)
    row_splits, weights, combiners = with_defaults(len(variables), row_splits, weights, combiners)
    lists = [ids, row_splits, weights, values, numbers, combiners]
    if columns is not None:
        lists.append([first for first, _ in columns])
    groups = device_groups(variables)
    if len(groups) < 2:
        return _apply(variables, *lists)
    # An op a memory. Whether the GPU has room shows as its tables are updated: they come first, and
    # the others have been asked by then.
    groups.sort(key=lambda group: "GPU" not in variables[group[0]].native.device)
    done = [
        check_updates([variables[place] for place in group], [ids[place] for place in group])
        for group in groups[1:]
    ]
    for group in groups:
        of_group = [[a_list[place] for place in group] for a_list in (variables, *lists)]
        with tf.control_dependencies([each for each in done if each is not None]):
            done = [_apply(*of_group)]
    return done[0]


def _apply(variables, ids, row_splits, weights, values, numbers, combiners, columns=()):
    return library.lib.keras_sparse_apply(
        handles=handles_of(variables),
        ids=ids,
        row_splits=row_splits,
        weights=weights,
        output_grads=values,
        numbers=numbers,
        rule_generations=[variable.table.rule_generation for variable in variables],
        combiners=combiners,
        columns=columns,
    )


def check_updates(variables, ids):
    """Refuses an update with these ids that one of the tables would refuse.

    It is for steps of several updates, of which none is to be made then.

    Args:
        variables: List of `EmbeddingVariable`, as for `apply_gradients`.
        ids: List of int64 tensors.

    Returns:
        What must have run before anything is changed; `None` where it has run.

    Raises:
        tf.errors.InvalidArgumentError: An id is outside of its table.
        tf.errors.ResourceExhaustedError: A table has no room for its new rows, in the GPU's memory
            either. What it has found there stays the table's.
    """
    return on_each_device(
        lambda tables, of_tables: library.lib.keras_sparse_check_update(
            handles=handles_of(tables), ids=of_tables
        ),
        variables,
        ids,
    )


def check_room(variables, ids):
    """Checks whether an update with these ids would exceed a table's `max_rows`.

    Args:
        variables: List of `EmbeddingVariable`, as for `apply_gradients`.
        ids: List of int64 tensors.

    Returns:
        Scalar string tensor: why the update would be refused, or nothing.
    """
    check_tables(variables)
    refusal = tf.constant("")
    for group in device_groups(variables):
        of_group = library.lib.keras_sparse_check_room(
            handles=[variables[place].native for place in group],
            ids=[ids[place] for place in group],
        )
        refusal = tf.where(refusal == "", of_group, refusal)
    return refusal


def refuse_step(refusal, num_refusals):
    """Raises the error of a step that a rank has no room for, on each rank.

    Args:
        refusal: Scalar string tensor: this rank's, as of `check_room`.
        num_refusals: Scalar int32 tensor: how many ranks have one.

    Returns:
        What must have run before anything is changed; `None` where it has run.

    Raises:
        tf.errors.ResourceExhaustedError: A rank has no room.
    """
    return library.lib.keras_sparse_refuse_step(refusal=refusal, num_refusals=num_refusals)
