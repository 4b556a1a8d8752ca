import tensorflow as tf

from keras_sparse import native
from keras_sparse.native.on_cpu import on_cpu
from keras_sparse.ops.embedding_lookup import check_max_norm
from keras_sparse.ops.embedding_lookup_sparse import check_bags
from keras_sparse.ops.embedding_lookup_sparse import check_combiner
from keras_sparse.ops.embedding_lookup_sparse import pooled_rows
from keras_sparse.ops.embedding_lookup_sparse import ragged_bags
from keras_sparse.utils import checks


# AutoGraph would rewrite this function for every trace, and finds nothing in it to convert.
@tf.autograph.experimental.do_not_convert
def safe_embedding_lookup_sparse(
    embedding_weights,
    sparse_ids,
    sparse_weights=None,
    combiner="mean",
    default_id=None,
    max_norm=None,
):
    """Looks up and pools rows, skipping invalid ids and filling empty samples.

    As in `tf.nn.safe_embedding_lookup_sparse`, ids below 0 and ids whose weight is not above 0 are
    skipped, here for every combiner. TensorFlow's function skips weights of 0 and less only for
    `"mean"` and `"sqrtn"`. The keys of a dynamic table below 0 are valid: look them up by
    `keras_sparse.ops.embedding_lookup_sparse`.

    Args:
        embedding_weights: `EmbeddingVariable`, static or dynamic.
        sparse_ids: SparseTensor of integers, of shape `(batch_size, ..., hotness)`, or RaggedTensor
            of shape `(batch_size, hotness)`. A uint64 id stands for the int64 id with the same bits
            and is never below 0.
        sparse_weights: Weight of each id, in the kind and structure of `sparse_ids`. Defaults to
            `None`: 1 for each id.
        combiner: `"sum"`, `"mean"` (divided by the sum of the weights) or `"sqrtn"` (divided by the
            root of the sum of squared weights); `None` means `"mean"`. Defaults to `"mean"`.
        default_id: Integer that fits int64 or uint64. A sample without valid ids returns the row of
            this id, which receives the gradient of the sample. Defaults to `None`: zeros.
        max_norm: Float above 0. A row with a larger L2 norm is scaled down to this norm before
            pooling. TensorFlow then pools the rows, which needs the memory of one row per id.
            Defaults to `None`: no scaling.

    Returns:
        float32 tensor of shape `(*sparse_ids.shape[:-1], output_dim)`.

    Raises:
        TypeError: `embedding_weights` is not an `EmbeddingVariable`; `sparse_ids` is neither sparse
            nor ragged, or does not hold integers; `sparse_weights` is of another kind than
            `sparse_ids`; or `default_id` is not an integer.
        ValueError: `sparse_ids` has fewer than two axes, or more than two as a RaggedTensor;
            `sparse_weights` has another shape; `combiner` is unknown; `default_id` needs more than
            64 bits; or `max_norm` is not above 0.
        tf.errors.InvalidArgumentError: Weights and ids are at different places, or an id is outside
            a static table with `out_of_range="error"`.

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
            "axes, pass a SparseTensor: `sparse_ids.to_sparse()`. Received: sparse_ids of shape "
            f"{ids.shape}"
        )
    if rank is not None and rank < 2:
        raise ValueError(
            "`sparse_ids` must have an axis of samples and an axis of ids: (batch_size, ..., "
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
    """Restores the axes that `_as_matrix` has joined."""
    if ids.shape.rank == 2:
        return pooled
    dim = pooled.shape[-1]
    pooled = tf.reshape(pooled, tf.concat([ids.dense_shape[:-1], [dim]], axis=0))
    return pooled if ids.shape.rank is None else tf.ensure_shape(pooled, [*ids.shape[:-1], dim])


@on_cpu
def _leave_out_invalid(ids, weights, dtype):
    # Unsigned ids are not below 0, although their int64 bits may be.
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
