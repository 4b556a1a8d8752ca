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


# AutoGraph would rewrite what follows for every trace, and has nothing to find in it.
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
    """Reads and pools rows of many tables in one native op: a list of `embedding_lookup_sparse` in
    the time of one.

    Stands in for DeepRec's `tf.nn.group_embedding_lookup_sparse`; unlike there, weights count, and
    each table keeps its own combiner. Differentiable in the tables and in the weights. Where tables
    are spread over ranks use `keras_sparse.layers.GroupEmbedding`.

    Args:
        params: List of `EmbeddingVariable`, static or dynamic, of any widths. One may be there
            several times.
        sp_ids: List of SparseTensors or RaggedTensors of integers, `(batch_size, hotness)`, one a
            table.
        combiners: List of `"sum"`, `"mean"` or `"sqrtn"`, one a table. Not read for sequences.
        partition_strategy: `"mod"`. Tables are whole, so it says nothing. Defaults to `"mod"`.
        sp_weights: List of numbers of the kind and structure of `sp_ids`, or of `None` where they
            are ones. Defaults to `None` for all.
        is_sequence: Boolean. Whether rows stay one by one, in place of being pooled, each times its
            weight. Defaults to `False`.
        params_num_per_group: Integer. How many tables an op reads at most. Defaults to `None`: all,
            as it must be for an `output_mode` other than list.
        name: String, of the ops in profiles. Defaults to `None`.
        output_mode: `"list"`, or `"concat"` or `"stack"` for all outputs in one tensor, which the
            lookup writes at once but for sequences. Defaults to `"list"`.

    Returns:
        List of float32 tensors of shape `(batch_size, output_dim)`, where a sample without ids gets
        zeros. For sequences `(batch_size, hotness, output_dim)`, with zeros where there is no id;
        hotness is that of the longest sample of RaggedTensors. For `"concat"` one tensor with the
        sum of the output_dims as its last axis, for `"stack"` with the number of tables before it.

    Raises:
        TypeError: `params` are not all `EmbeddingVariable`, ids are of another kind, or weights are
            not of the kind of their ids.
        ValueError: The lists differ in length, ids are not 2-D, weights have another shape, or a
            combiner is another string.
        tf.errors.InvalidArgumentError: Weights are at other places than their ids; or an id is
            outside a static table, as in `keras_sparse.ops.lookup`.

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
