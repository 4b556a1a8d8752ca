import tensorflow as tf

from keras_sparse import native
from keras_sparse.inputs.ragged_inputs import flat
from keras_sparse.inputs.ragged_inputs import ids_as_tensor
from keras_sparse.inputs.ragged_inputs import to_int64
from keras_sparse.inputs.ragged_inputs import unflatten
from keras_sparse.inputs.symbolic_inputs import is_placeholder
from keras_sparse.native.on_cpu import on_cpu
from keras_sparse.utils import checks


# AutoGraph would rewrite what follows for every trace, and has nothing to find in it.
@tf.autograph.experimental.do_not_convert
def embedding_lookup(params, ids, max_norm=None):
    """Reads the row of each id from a table, as `tf.nn.embedding_lookup` does from a tensor.

    Differentiable in the table: `tape.gradient` gives `tf.IndexedSlices`, for the optimizers of
    `keras_sparse.optimizers`.

    Args:
        params: `EmbeddingVariable`, static or dynamic.
        ids: Tensor of integers of any rank, or what becomes one: an array, a number, lists; lists
            of different lengths become a RaggedTensor. Or a RaggedTensor. A uint64 names the row of
            the int64 with its bits.
        max_norm: Float. A row with a larger L2 norm is scaled down to it. Defaults to `None`: rows
            as they are.

    Returns:
        float32 tensor of shape `(*ids.shape, output_dim)`, ragged where `ids` is.

    Raises:
        TypeError: `params` is not an `EmbeddingVariable`, but a tensor or a list of partitions, for
            example; or `ids` are not integers.
        ValueError: `max_norm` is not above 0.
        tf.errors.InvalidArgumentError: An id is outside a static table, as in
            `keras_sparse.ops.lookup`.

    Example:
    >>> table = keras_sparse.EmbeddingVariable(10, 4, initializer="ones")
    >>> embedding_lookup(table, [[3, 3], [5, 0]]).shape
    TensorShape([2, 2, 4])
    >>> embedding_lookup(table, [3], max_norm=1.0).numpy()
    array([[0.5, 0.5, 0.5, 0.5]], dtype=float32)
    """
    native.check_table(params, "params")
    max_norm = check_max_norm(max_norm)
    ids = ids_tensor(ids, "ids")
    (rows,) = native.lookup([params], [flat_int64(ids, params.input_dim)])
    return rows_like(limit_norms(rows, max_norm), ids)


def check_integers(ids, name):
    """Raises unless the tensor `ids` is of integers."""
    if not ids.dtype.is_integer and not is_placeholder(ids.dtype):
        raise TypeError(
            f"`{name}` must be integers, as other types do not hold every id. Turn strings into "
            "ids with `tf.strings.to_hash_bucket_strong`, and read numbers as int64 from the "
            f"start. Received: {name} of dtype {ids.dtype.name}"
        )


def check_max_norm(max_norm):
    """Returns `max_norm`; raises unless it is `None` or a number above 0."""
    return None if max_norm is None else checks.between(max_norm, 0, float("inf"), "max_norm")


def limit_norms(rows, max_norm):
    """Scales rows of a larger L2 norm down to `max_norm`; `None` leaves all as they are."""
    return rows if max_norm is None else tf.clip_by_norm(rows, max_norm, axes=[1])


def ids_tensor(ids, name):
    """Returns integers of any form but a SparseTensor as a tensor or RaggedTensor; raises where
    they are none.
    """
    if ids is None or isinstance(ids, tf.SparseTensor):
        raise TypeError(
            f"`{name}` must be a tensor, an array, lists or a RaggedTensor. Pool the rows of a "
            "SparseTensor with `keras_sparse.ops.embedding_lookup_sparse`. Received: "
            f"{name} of type {type(ids).__name__}"
        )
    ids = ids_as_tensor(ids)
    if not isinstance(ids, tf.RaggedTensor):
        ids = tf.convert_to_tensor(ids)
    check_integers(ids, name)
    return ids


@on_cpu
def flat_int64(ids, input_dim):
    """Returns the ids of a tensor or RaggedTensor as an int64 tensor of one axis."""
    return flat(to_int64(getattr(ids, "flat_values", ids), input_dim))


def rows_like(rows, ids):
    """Gives rows, one an id, the shape of a tensor or RaggedTensor of ids."""
    flat_ids = getattr(ids, "flat_values", ids)
    rows = unflatten(rows, flat_ids)
    return ids.with_flat_values(rows) if isinstance(ids, tf.RaggedTensor) else rows
