import tensorflow as tf

from keras_sparse import native
from keras_sparse.ops.embedding_lookup_sparse import check_bags
from keras_sparse.ops.embedding_lookup_sparse import ragged_bags
from keras_sparse.ops.group_embedding_lookup import check_group
from keras_sparse.ops.group_embedding_lookup import check_group_output
from keras_sparse.ops.group_embedding_lookup import lookup_in_groups
from keras_sparse.ops.output_mode import join
from keras_sparse.ops.output_mode import split_inputs
from keras_sparse.utils import checks


# AutoGraph would rewrite this function for every trace, and finds nothing in it to convert.
@tf.autograph.experimental.do_not_convert
def group_embedding_lookup_sparse(
    params,
    sp_ids,
    combiners,
    partition_strategy="mod",
    sp_weights=None,
    is_sequence=False,
    params_num_per_group=None,
    name=None,
    output_mode="list",
):
    """Looks up and pools rows of many tables in one native op.

    The result is a list of `embedding_lookup_sparse`, in the time of one. The function replaces
    DeepRec's `tf.nn.group_embedding_lookup_sparse`. Unlike there, weights are applied, and each
    table has its own combiner. Differentiable in the tables and in the weights. Use
    `keras_sparse.layers.GroupEmbedding` for tables that are sharded over ranks.

    Args:
        params: List of `EmbeddingVariable`, static or dynamic, of any widths. A table may appear
            several times.
        sp_ids: List of SparseTensors or RaggedTensors of integers, of shape
            `(batch_size, hotness)`, one per table. A uint64 id stands for the int64 id with the
            same bits.
        combiners: List of `"sum"`, `"mean"` or `"sqrtn"`, one per table. Ignored with
            `is_sequence=True`.
        partition_strategy: `"mod"`. Ignored, because tables are not partitioned. Defaults to
            `"mod"`.
        sp_weights: List of weights in the kind and structure of `sp_ids`, or of `None` for weights
            of 1. Defaults to `None` for all.
        is_sequence: Boolean. Whether to return one row per id, multiplied by its weight, instead of
            pooled rows. Defaults to `False`.
        params_num_per_group: Integer. Largest number of tables that one native op looks up. Must be
            `None` unless `output_mode="list"`. Defaults to `None`: all tables.
        name: String. Name scope of the ops in profiles. Defaults to `None`.
        output_mode: `"list"`, `"concat"` or `"stack"`. `"concat"` and `"stack"` return all outputs
            in one tensor, which the lookup writes directly unless `is_sequence=True`. Defaults to
            `"list"`.

    Returns:
        List of float32 tensors of shape `(batch_size, output_dim)`; a sample without ids has zeros.
        With `is_sequence=True`, shape `(batch_size, hotness, output_dim)` with zeros where there is
        no id; the hotness of RaggedTensors is that of their longest sample. With `"concat"`, one
        tensor whose last axis is the sum of the output_dims; with `"stack"`, one with an axis of
        tables before the last axis.

    Raises:
        TypeError: An element of `params` is not an `EmbeddingVariable`; ids are neither sparse nor
            ragged, or not integers; or weights are of another kind than their ids.
        ValueError: The lists differ in length, ids are not 2-D, weights have another shape, a
            combiner is unknown, or `params_num_per_group` is given with another `output_mode` than
            `"list"`.
        tf.errors.InvalidArgumentError: Weights and ids are at different places, or an id is outside
            a static table with `out_of_range="error"`.

    Example:
    >>> tables = [keras_sparse.EmbeddingVariable(10, dim, initializer="ones") for dim in (4, 8)]
    >>> ids = [tf.ragged.constant([[3, 3, 5], []]), tf.sparse.from_dense([[1, 2], [0, 7]])]
    >>> [rows.numpy()[:, 0] for rows in group_embedding_lookup_sparse(tables, ids, ["sum"] * 2)]
    [array([3., 0.], dtype=float32), array([2., 1.], dtype=float32)]
    """
    check_group(params, sp_ids=sp_ids, combiners=combiners, sp_weights=sp_weights)
    checks.one_of(partition_strategy, ("mod",), "partition_strategy")
    is_sequence = checks.boolean(is_sequence, "is_sequence")
    check_group_output(output_mode, params, params_num_per_group)
    sp_weights = [None] * len(params) if sp_weights is None else sp_weights
    for i, (ids, weights) in enumerate(zip(sp_ids, sp_weights, strict=True)):
        check_bags(ids, weights, f"sp_ids[{i}]", f"sp_weights[{i}]")
        if ids.shape.rank != 2:
            raise ValueError(
                f"`sp_ids[{i}]` must be 2-D: (batch_size, hotness). Received: {ids.shape}"
            )
    with tf.name_scope(name or "group_embedding_lookup_sparse"):
        bags = [ragged_bags(*each) for each in zip(sp_ids, sp_weights, strict=True)]
        if is_sequence:
            rows = lookup_in_groups(params_num_per_group, params, [ids.values for ids, _ in bags])
            outputs = [_sequences(*each) for each in zip(rows, bags, sp_ids, strict=True)]
            return outputs if output_mode == "list" else join(outputs, output_mode)
        lists = (
            params,
            [ids.values for ids, _ in bags],
            [ids.row_splits for ids, _ in bags],
            [None if weights is None else weights.values for _, weights in bags],
            [
                checks.one_of(each, native.COMBINERS, f"combiners[{i}]")
                for i, each in enumerate(combiners)
            ],
        )
        if output_mode == "list":
            return lookup_in_groups(params_num_per_group, *lists)
        return split_inputs(native.lookup(*lists, joined=True), len(params), output_mode)


def _sequences(rows, bags, sp_ids):
    """Puts rows to the places of their ids."""
    ids, weights = bags
    if weights is not None:
        rows *= weights.values[:, tf.newaxis]
    if isinstance(sp_ids, tf.RaggedTensor):
        return ids.with_values(rows).to_tensor()
    places = tf.sparse.reorder(sp_ids).indices  # as the ids of the bags are
    shape = tf.concat([sp_ids.dense_shape, [rows.shape[1]]], axis=0)
    return tf.ensure_shape(
        tf.scatter_nd(places, rows, shape), sp_ids.shape.concatenate(rows.shape[1])
    )
