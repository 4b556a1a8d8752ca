import tensorflow as tf

from keras_sparse import native
from keras_sparse.inputs.ragged_inputs import ragged_form
from keras_sparse.native.on_cpu import on_cpu
from keras_sparse.ops.embedding_lookup import check_integers
from keras_sparse.ops.embedding_lookup import check_max_norm
from keras_sparse.ops.embedding_lookup import limit_norms
from keras_sparse.saved_model.pool_rows import pool_rows
from keras_sparse.utils import checks


# AutoGraph would rewrite this function for every trace, and finds nothing in it to convert.
@tf.autograph.experimental.do_not_convert
def embedding_lookup_sparse(params, sp_ids, sp_weights=None, combiner=None, max_norm=None):
    """Looks up and pools rows per sample, as `tf.nn.embedding_lookup_sparse` does.

    Unlike TensorFlow's function, the last sample may have no ids, and ids may be in any order.
    Differentiable in the table and in the weights.

    Args:
        params: `EmbeddingVariable`, static or dynamic.
        sp_ids: SparseTensor or RaggedTensor of integers, of shape `(batch_size, hotness)`. A uint64
            id stands for the int64 id with the same bits.
        sp_weights: Weight of each id, in the kind and structure of `sp_ids`. Defaults to `None`: 1
            for each id.
        combiner: `"sum"`, `"mean"` (divided by the sum of the weights) or `"sqrtn"` (divided by the
            root of the sum of squared weights). Defaults to `None`: `"mean"`.
        max_norm: Float above 0. A row with a larger L2 norm is scaled down to this norm before
            pooling. TensorFlow then pools the rows, which needs the memory of one row per id.
            Defaults to `None`: no scaling.

    Returns:
        float32 tensor of shape `(batch_size, output_dim)`. A sample without ids has zeros.

    Raises:
        TypeError: `params` is not an `EmbeddingVariable`; `sp_ids` is neither sparse nor ragged, or
            does not hold integers; or `sp_weights` is of another kind than `sp_ids`.
        ValueError: `sp_ids` is not 2-D, `sp_weights` has another shape, `combiner` is unknown, or
            `max_norm` is not above 0.
        tf.errors.InvalidArgumentError: Weights and ids are at different places, or an id is outside
            a static table with `out_of_range="error"`.

    Example:
    >>> table = keras_sparse.EmbeddingVariable(10, 4, initializer="ones")
    >>> ids = tf.ragged.constant([[3, 3, 5], []])
    >>> embedding_lookup_sparse(table, ids, combiner="sum").numpy()
    array([[3., 3., 3., 3.],
           [0., 0., 0., 0.]], dtype=float32)
    """
    native.check_table(params, "params")
    combiner = check_combiner(combiner)
    max_norm = check_max_norm(max_norm)
    check_bags(sp_ids, sp_weights, "sp_ids", "sp_weights")
    if sp_ids.shape.rank != 2:
        raise ValueError(
            "`sp_ids` must be 2-D: (batch_size, hotness). For a SparseTensor with more axes, "
            "use `keras_sparse.ops.safe_embedding_lookup_sparse`. Received: sp_ids of shape "
            f"{sp_ids.shape}"
        )
    ids, weights = ragged_bags(sp_ids, sp_weights)
    return pooled_rows(params, ids, weights, combiner, max_norm)


def check_combiner(combiner):
    """Returns the combiner, `"mean"` for `None`; raises `ValueError` for others."""
    return "mean" if combiner is None else checks.one_of(combiner, native.COMBINERS, "combiner")


def check_bags(ids, weights, ids_name, weights_name):
    """Raises unless ids and weights are sparse or ragged alike and of one shape.

    Ids must be integers. Weights may be `None`.
    """
    if not isinstance(ids, (tf.SparseTensor, tf.RaggedTensor)):
        raise TypeError(
            f"`{ids_name}` must be a SparseTensor or a RaggedTensor. Convert dense ids with "
            "`tf.RaggedTensor.from_tensor(ids)`, or pass dense ids and Keras inputs to "
            f"`keras_sparse.layers.Embedding`. Received: {ids_name} of type {type(ids).__name__}"
        )
    check_integers(ids, ids_name)
    if weights is None:
        return
    if not isinstance(weights, (tf.SparseTensor, tf.RaggedTensor)) or (
        isinstance(ids, tf.SparseTensor) != isinstance(weights, tf.SparseTensor)
    ):
        raise TypeError(
            f"`{weights_name}` must be None or of the kind of `{ids_name}`, with one weight per "
            f"id. Received: {weights_name} of type {type(weights).__name__}, {ids_name} of type "
            f"{type(ids).__name__}"
        )
    if not ids.shape.is_compatible_with(weights.shape):
        raise ValueError(
            f"`{weights_name}` must have the shape of `{ids_name}`, with one weight per id. "
            f"Received: {weights_name} of shape {weights.shape}, {ids_name} of shape {ids.shape}"
        )


@on_cpu
def ragged_bags(ids, weights):
    """Converts checked 2-D ids and weights, sparse or ragged, for a lookup.

    Returns:
        RaggedTensor of int64 ids, and RaggedTensor of float32 weights or `None`.
    """
    form = ragged_form(ids, weights, "sum", input_dim=None)
    row_splits = form.row_splits
    if isinstance(ids, tf.SparseTensor):
        row_splits = _check_places(row_splits, form.ids)
    ids = tf.RaggedTensor.from_row_splits(form.ids, row_splits, validate=False)
    return ids, None if form.weights is None else ids.with_values(form.weights)


def _check_places(row_splits, ids):
    """Returns the row_splits; it is an error if ids lie outside of all samples."""
    message = "The indices of a SparseTensor must lie within its dense_shape."
    ends, expected = tf.gather(row_splits, [0, tf.size(row_splits) - 1]), [0, tf.size(ids)]
    check = tf.debugging.assert_equal(ends, tf.cast(expected, tf.int64), message)
    with tf.control_dependencies([check]):
        return tf.identity(row_splits)


def pooled_rows(table, ids, weights, combiner, max_norm):
    """Looks up and pools rows, in one native op unless `max_norm` is given.

    With `max_norm`, the native op looks the rows up and TensorFlow pools them.

    Args:
        table: `EmbeddingVariable`.
        ids: RaggedTensor of int64 ids, of shape `(num_bags, None)`.
        weights: RaggedTensor of float32 weights with the same `row_splits`, or `None`.
        combiner: String.
        max_norm: Float, or `None`.
    """
    if max_norm is None:
        weights = None if weights is None else weights.values
        return native.lookup([table], [ids.values], [ids.row_splits], [weights], [combiner])[0]
    (rows,) = native.lookup([table], [ids.values])
    weights = None if weights is None else weights.values
    return pool_rows(limit_norms(rows, max_norm), ids.row_splits, weights, combiner)
