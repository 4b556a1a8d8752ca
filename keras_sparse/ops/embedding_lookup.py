import tensorflow as tf

from keras_sparse import native
from keras_sparse.inputs.ragged_inputs import flat
from keras_sparse.inputs.ragged_inputs import ids_as_tensor
from keras_sparse.inputs.ragged_inputs import to_int64
from keras_sparse.inputs.ragged_inputs import unflatten
from keras_sparse.inputs.symbolic_inputs import is_placeholder
from keras_sparse.native.on_cpu import on_cpu
from keras_sparse.utils import checks


# AutoGraph would rewrite this function for every trace, and finds nothing in it to convert.
@tf.autograph.experimental.do_not_convert
def embedding_lookup(params, ids, max_norm=None):
    """Looks up rows of a table, as `tf.nn.embedding_lookup` does of a tensor.

    Differentiable in the table: `tape.gradient` returns `tf.IndexedSlices`, which the optimizers of
    `keras_sparse.optimizers` apply.

    Args:
        params: `EmbeddingVariable`, static or dynamic.
        ids: Integer tensor of any rank, RaggedTensor, or a value that converts to one: an array, a
            number, nested lists (of different lengths for a RaggedTensor). A uint64 id stands for
            the int64 id with the same bits.
        max_norm: Float above 0. A row with a larger L2 norm is scaled down to this norm. Defaults
            to `None`: no scaling.

    Returns:
        float32 tensor of shape `(*ids.shape, output_dim)`; ragged if `ids` is ragged.

    Raises:
        TypeError: `params` is not an `EmbeddingVariable`, or `ids` are not integers.
        ValueError: `max_norm` is not above 0.
        tf.errors.InvalidArgumentError: An id is outside a static table with `out_of_range="error"`.

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
    """Raises `TypeError` unless the tensor `ids` holds integers."""
    if not ids.dtype.is_integer and not is_placeholder(ids.dtype):
        raise TypeError(
            f"`{name}` must be integers, because other types do not hold every id. Hash strings "
            "to ids with `tf.strings.to_hash_bucket_strong`, and read numbers as int64 from the "
            f"start. Received: {name} of dtype {ids.dtype.name}"
        )


def check_max_norm(max_norm):
    """Returns `max_norm`; raises unless it is `None` or a number above 0."""
    return None if max_norm is None else checks.between(max_norm, 0, float("inf"), "max_norm")


def limit_norms(rows, max_norm):
    """Scales rows with a larger L2 norm down to `max_norm`, unless that is `None`."""
    return rows if max_norm is None else tf.clip_by_norm(rows, max_norm, axes=[1])


def ids_tensor(ids, name):
    """Returns ids as a tensor or RaggedTensor; raises `TypeError` for other types."""
    if ids is None or isinstance(ids, tf.SparseTensor):
        raise TypeError(
            f"`{name}` must be a tensor, an array, nested lists or a RaggedTensor. Pool the rows "
            "of a SparseTensor with `keras_sparse.ops.embedding_lookup_sparse`. Received: "
            f"{name} of type {type(ids).__name__}"
        )
    ids = ids_as_tensor(ids)
    if not isinstance(ids, tf.RaggedTensor):
        ids = tf.convert_to_tensor(ids)
    check_integers(ids, name)
    return ids


@on_cpu
def flat_int64(ids, input_dim):
    """Returns the ids of a tensor or RaggedTensor as a flat int64 tensor."""
    return flat(to_int64(getattr(ids, "flat_values", ids), input_dim))


def rows_like(rows, ids):
    """Reshapes rows, one per id, to the shape of a tensor or RaggedTensor of ids."""
    flat_ids = getattr(ids, "flat_values", ids)
    rows = unflatten(rows, flat_ids)
    return ids.with_flat_values(rows) if isinstance(ids, tf.RaggedTensor) else rows
