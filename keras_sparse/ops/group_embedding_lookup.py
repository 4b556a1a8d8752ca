import tensorflow as tf

from keras_sparse import native
from keras_sparse.ops.embedding_lookup import flat_int64
from keras_sparse.ops.embedding_lookup import ids_tensor
from keras_sparse.ops.embedding_lookup import rows_like
from keras_sparse.ops.output_mode import check_output_mode
from keras_sparse.ops.output_mode import join
from keras_sparse.ops.output_mode import joined_shape
from keras_sparse.ops.output_mode import split_inputs
from keras_sparse.utils import checks


# AutoGraph would rewrite this function for every trace, and finds nothing in it to convert.
@tf.autograph.experimental.do_not_convert
def group_embedding_lookup(
    params,
    ids,
    partition_strategy="mod",
    params_num_per_group=None,
    name=None,
    output_mode="list",
):
    """Looks up rows of many tables in one native op.

    The result is a list of `embedding_lookup`, in the time of one. The function replaces DeepRec's
    `tf.nn.group_embedding_lookup`; for a SparseTensor, pass its values, `sp_ids.values`.
    Differentiable in the tables.

    Args:
        params: List of `EmbeddingVariable`, static or dynamic, of any widths. A table may appear
            several times.
        ids: List of integer tensors of any rank, RaggedTensors, or values that convert to one, one
            per table. A uint64 id stands for the int64 id with the same bits.
        partition_strategy: `"mod"`. Ignored, because tables are not partitioned. Defaults to
            `"mod"`.
        params_num_per_group: Integer. Largest number of tables that one native op looks up. Must be
            `None` unless `output_mode="list"`. Defaults to `None`: all tables.
        name: String. Name scope of the ops in profiles. Defaults to `None`.
        output_mode: `"list"`, `"concat"` or `"stack"`. `"concat"` and `"stack"` return all rows in
            one tensor, which the lookup writes directly; ids of all tables must then have the same
            shape. Defaults to `"list"`.

    Returns:
        List of float32 tensors of shape `(*ids.shape, output_dim)`, ragged for ragged ids. With
        `"concat"`, one tensor of shape `(*ids.shape, sum of the output_dims)`; with `"stack"`, one
        of shape `(*ids.shape, number of tables, output_dim)`.

    Raises:
        TypeError: An element of `params` is not an `EmbeddingVariable`, or ids are not integers.
        ValueError: The lists differ in length, or `params_num_per_group` is given with another
            `output_mode` than `"list"`.
        tf.errors.InvalidArgumentError: An id is outside a static table with `out_of_range="error"`.

    Example:
    >>> tables = [keras_sparse.EmbeddingVariable(10, dim) for dim in (4, 8)]
    >>> [rows.shape for rows in group_embedding_lookup(tables, [[1, 2], [[3], [4]]])]
    [TensorShape([2, 4]), TensorShape([2, 1, 8])]
    """
    check_group(params, ids=ids)
    checks.one_of(partition_strategy, ("mod",), "partition_strategy")
    check_group_output(output_mode, params, params_num_per_group)
    ids = [ids_tensor(each, f"ids[{i}]") for i, each in enumerate(ids)]
    flat_ids = [flat_int64(each, table.input_dim) for each, table in zip(ids, params, strict=True)]
    with tf.name_scope(name or "group_embedding_lookup"):
        if output_mode == "list":
            rows = lookup_in_groups(params_num_per_group, params, flat_ids)
            return [rows_like(*each) for each in zip(rows, ids, strict=True)]
        if not all(_has_known_shape(each) for each in ids):
            rows = lookup_in_groups(params_num_per_group, params, flat_ids)
            return join([rows_like(*each) for each in zip(rows, ids, strict=True)], output_mode)
        joined_shape([each.shape.concatenate(1) for each in ids], "concat")
        rows = native.lookup(params, flat_ids, joined=True)
        return split_inputs(rows_like(rows, ids[0]), len(params), output_mode)


def check_group(params, **lists):
    """Raises unless `params` is a list of tables and other lists are as long.

    The other lists may be `None`.
    """
    native.check_tables(params, "params")
    given = {name: each for name, each in {"params": params, **lists}.items() if each is not None}
    for name, each in given.items():
        if not isinstance(each, (list, tuple)):
            raise TypeError(
                f"`{name}` must be a list with one entry per table. Received: {type(each).__name__}"
            )
    checks.same_length(given)


def check_group_output(mode, params, params_num_per_group):
    """Raises `ValueError` unless the tables support this `output_mode`."""
    check_output_mode(mode, [table.output_dim for table in params])
    if mode != "list" and params_num_per_group is not None:
        raise ValueError(
            "`params_num_per_group` must be None unless output_mode='list', because one op "
            "writes all rows to one tensor. Received: "
            f"params_num_per_group={params_num_per_group}, output_mode='{mode}'"
        )


def _has_known_shape(ids):
    """Whether ids are dense, with a batch of any size but all other axes known."""
    if isinstance(ids, tf.RaggedTensor) or ids.shape.rank is None:
        return False
    return None not in ids.shape[1:].as_list()


def lookup_in_groups(params_num_per_group, *lists):
    """Runs `keras_sparse.ops.lookup` on a number of tables at a time; all for `None`."""
    num_tables = len(lists[0])
    num_per_group = checks.positive_or_none(params_num_per_group, "params_num_per_group")
    num_per_group = num_per_group or max(1, num_tables)
    return [
        rows
        for start in range(0, num_tables, num_per_group)
        for rows in native.lookup(*(each[start : start + num_per_group] for each in lists))
    ]
