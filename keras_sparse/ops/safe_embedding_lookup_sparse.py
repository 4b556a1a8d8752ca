import tensorflow as tf

from keras_sparse import native
from keras_sparse.native.on_cpu import on_cpu
from keras_sparse.ops.embedding_lookup import check_max_norm
from keras_sparse.ops.embedding_lookup_sparse import check_bags
from keras_sparse.ops.embedding_lookup_sparse import check_combiner
from keras_sparse.ops.embedding_lookup_sparse import pooled_rows
from keras_sparse.ops.embedding_lookup_sparse import ragged_bags
from keras_sparse.utils import checks


# AutoGraph would rewrite what follows for every trace, and has nothing to find in it.
@tf.autograph.experimental.do_not_convert
def safe_embedding_lookup_sparse(
    embedding_weights,
    sparse_ids,
    sparse_weights=None,
    combiner="mean",
    default_id=None,
    max_norm=None,
):
    """Pools a table's rows as `tf.nn.safe_embedding_lookup_sparse` does: leaves invalid ids out and
    fills in for samples without any.

    Ids below 0 and ids whose weight is not above 0 are left out, whatever the combiner.
    TensorFlow's function leaves out weights of 0 and less for `"mean"` and `"sqrtn"` alone: with
    `"sum"` such rows count there. A dynamic table has no invalid keys: read its keys below 0 by
    `keras_sparse.ops.embedding_lookup_sparse`.

    Args:
        embedding_weights: `EmbeddingVariable`, static or dynamic.
        sparse_ids: SparseTensor of integers, of shape `(batch_size, ..., hotness)`, or RaggedTensor
            of shape `(batch_size, hotness)`. A uint64 names the row of the int64 with its bits, and
            is never below 0.
        sparse_weights: Numbers of the same kind and structure as `sparse_ids`: what each row
            counts. Defaults to `None`: ones.
        combiner: `"sum"`, `"mean"` (of weighted rows, over the sum of the weights) or `"sqrtn"`
            (over the root of the sum of their squares); `None` says `"mean"`. Defaults to `"mean"`.
        default_id: Integer. Its row is what a sample without valid ids gets, and gets the gradient
            of that sample. Defaults to `None`: zeros.
        max_norm: Float. A row with a larger L2 norm is scaled down to it before rows are pooled.
            Rows are then pooled by TensorFlow, which takes the memory of a row an id. Defaults to
            `None`: rows as they are.

    Returns:
        float32 tensor of shape `(*sparse_ids.shape[:-1], output_dim)`.

    Raises:
        TypeError: `embedding_weights` is not an `EmbeddingVariable`, but a tensor or a list of
            partitions, for example; `sparse_ids` is of another kind or not of integers;
            `sparse_weights` is of another kind than `sparse_ids`; or `default_id` is no integer.
        ValueError: `sparse_ids` has too few axes, or more than two and is ragged; `sparse_weights`
            has another shape; `combiner` is another string; `default_id` takes more than 64 bits;
            or `max_norm` is not above 0.
        tf.errors.InvalidArgumentError: The weights are at other places than the ids; or an id is
            outside a static table, as in `keras_sparse.ops.lookup`.

    Example:
    >>> table = keras_sparse.EmbeddingVariable(10, 2, initializer="ones")
    >>> ids = tf.ragged.constant([[3, -1, 5], [-1]])
    >>> safe_embedding_lookup_sparse(table, ids, combiner="sum").numpy()
    array([[2., 2.],
           [0., 0.]], dtype=float32)
    >>> safe_embedding_lookup_sparse(table, ids, combiner="sum", default_id=0).numpy()
    array([[2., 2.],
           [1., 1.]], dtype=float32)
    """
    native.check_table(embedding_weights, "embedding_weights")
    combiner = check_combiner(combiner)
    default_id = _check_default_id(default_id)
    max_norm = check_max_norm(max_norm)
    check_bags(sparse_ids, sparse_weights, "sparse_ids", "sparse_weights")
    _check_rank(sparse_ids)
    flat_weights = None if sparse_weights is None else _as_matrix(sparse_weights)
    ids, weights = ragged_bags(_as_matrix(sparse_ids), flat_weights)
    ids, weights = _leave_out_invalid(ids, weights, sparse_ids.dtype)
    if default_id is not None:
        ids, weights = _fill_empty_bags(ids, weights, default_id)
    pooled = pooled_rows(embedding_weights, ids, weights, combiner, max_norm)
    return _unflatten(pooled, sparse_ids)


def _check_default_id(default_id):
    if default_id is None:
        return None
    default_id = checks.integer(default_id, "default_id")
    if not -(2**63) <= default_id < 2**64:
        raise ValueError(
            f"`default_id` must be an int64 or a uint64. Received: default_id={default_id}"
        )
    return default_id if default_id < 2**63 else default_id - 2**64  # its bits


def _check_rank(ids):
    rank = ids.shape.rank
    if isinstance(ids, tf.RaggedTensor) and rank != 2:
        raise ValueError(
            "`sparse_ids` must be 2-D if it is a RaggedTensor: (batch_size, hotness). For more "
            "axes give a SparseTensor: `sparse_ids.to_sparse()`. Received: sparse_ids of shape "
            f"{ids.shape}"
        )
    if rank is not None and rank < 2:
        raise ValueError(
            "`sparse_ids` must have an axis of samples and one of ids: (batch_size, ..., "
            f"hotness). Received: sparse_ids of shape {ids.shape}"
        )


@on_cpu
def _as_matrix(bags):
    """Joins all axes but the last one of a SparseTensor."""
    if bags.shape.rank == 2:
        return bags
    sizes = bags.dense_shape
    return tf.sparse.reshape(bags, tf.stack([tf.reduce_prod(sizes[:-1]), sizes[-1]]))


def _unflatten(pooled, ids):
    """Brings back the axes that `_as_matrix` has joined."""
    if ids.shape.rank == 2:
        return pooled
    dim = pooled.shape[-1]
    pooled = tf.reshape(pooled, tf.concat([ids.dense_shape[:-1], [dim]], axis=0))
    return pooled if ids.shape.rank is None else tf.ensure_shape(pooled, [*ids.shape[:-1], dim])


@on_cpu
def _leave_out_invalid(ids, weights, dtype):
    # What was unsigned is not below 0, though its bits may be as an int64.
    kept = tf.ones_like(ids.values, tf.bool) if dtype.is_unsigned else ids.values >= 0
    if weights is not None:
        kept &= weights.values > 0
    kept = ids.with_values(kept)
    ids = tf.ragged.boolean_mask(ids, kept)
    return ids, None if weights is None else tf.ragged.boolean_mask(weights, kept)


@on_cpu
def _fill_empty_bags(ids, weights, default_id):
    is_empty = tf.cast(tf.equal(ids.row_lengths(), 0), tf.int64)
    defaults = tf.fill([tf.reduce_sum(is_empty)], tf.constant(default_id, tf.int64))
    defaults = tf.RaggedTensor.from_row_lengths(defaults, is_empty, validate=False)
    filled = tf.concat([ids, defaults], axis=1)
    if weights is not None:
        ones = defaults.with_values(tf.ones_like(defaults.values, tf.float32))
        weights = tf.concat([weights, ones], axis=1)
    return filled, weights
