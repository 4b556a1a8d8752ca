import tensorflow as tf

from keras_sparse import native
from keras_sparse.inputs.padding import leave_out
from keras_sparse.inputs.padding import to_dense
from keras_sparse.inputs.symbolic_inputs import FloatIdsError
from keras_sparse.inputs.symbolic_inputs import is_placeholder
from keras_sparse.native.on_cpu import on_cpu
from keras_sparse.saved_model.saved_model_scope import is_for_saved_model

# Integers up to which each floating-point type has every integer.
_EXACT_INTEGERS = {"float16": 2**11, "bfloat16": 2**8, "float32": 2**24, "float64": 2**24}


class RaggedForm:
    """A layer's inputs as a lookup takes them, and the way from its rows to the layer's outputs.

    Args:
        ids: int64 tensor of shape `(num_ids,)`.
        row_splits: int64 tensor of shape `(num_bags + 1,)`, or `None` if rows are not pooled.
        weights: float32 tensor of shape `(num_ids,)`, or `None` for ones.
        outputs: Function of the rows that gives the outputs.

    Attributes:
        has_gaps: Boolean. Whether outputs have zeros in between the rows, where padding was.
    """

    def __init__(self, ids, row_splits, weights, outputs):
        self.ids = ids
        self.row_splits = row_splits
        self.weights = weights
        self.outputs = outputs
        self.has_gaps = False


@on_cpu
def as_tensor(inputs):
    """Returns what may be lists as a tensor; lists of different lengths as a RaggedTensor."""
    if inputs is None:
        raise ValueError("`inputs` must be ids or weights. Received: None")
    if not isinstance(inputs, (list, tuple, int)):
        return inputs
    bags = inputs if isinstance(inputs, (list, tuple)) else []
    lengths = {len(bag) for bag in bags if isinstance(bag, (list, tuple))}
    # Looked at here: TensorFlow makes a tensor without values of lists whose first is empty.
    if len(lengths) > 1:
        return tf.ragged.constant(inputs, row_splits_dtype=tf.int64)
    return tf.convert_to_tensor(inputs)


def ids_as_tensor(inputs):
    """Returns what may be lists of ids as a tensor. Lists without any id have no type: they are
    integers.
    """
    tensor = as_tensor(inputs)
    if isinstance(inputs, (list, tuple)) and tensor.dtype.is_floating:
        flat = getattr(tensor, "flat_values", tensor)
        if flat.shape.num_elements() == 0:
            tensor = tf.cast(tensor, tf.int64)
    return tensor


def to_int64(ids, input_dim):
    """Returns ids as int64, each with its bits.

    Args:
        ids: Tensor of integers or, for a table of few enough rows, floats.
        input_dim: Integer, or `None` for a dynamic table.
    """
    if ids.dtype == tf.int64:
        return ids
    check_id_dtype(ids.dtype, input_dim)
    if ids.dtype == tf.uint64:
        return tf.bitcast(ids, tf.int64)
    if ids.dtype.is_floating and is_for_saved_model():
        ids = _checked_floats(ids)
    return tf.cast(ids, tf.int64)


def _checked_floats(ids):
    """Returns float ids of a SavedModel, where it is an error if they may stand for others."""
    most = _EXACT_INTEGERS[ids.dtype.name]
    are_exact = tf.reduce_all((tf.abs(ids) < most) & tf.equal(tf.round(ids), ids))
    message = (
        f"ids must be integers below {most} where they come as {ids.dtype.name}. For others export "
        "the model with `input_signature=[tf.TensorSpec(shape, tf.int64)]`. Received:"
    )
    with tf.control_dependencies([tf.debugging.Assert(are_exact, [message, ids])]):
        return tf.identity(ids)


def check_id_dtype(dtype, input_dim):
    """Refuses dtypes that do not hold every id of a table, unless nothing is looked up.

    Args:
        dtype: `tf.DType` of the ids.
        input_dim: Integer, or `None` for a dynamic table.
    """
    if dtype.is_integer or is_placeholder(dtype):
        return
    if not dtype.is_floating:
        raise TypeError(
            "`inputs` must be integers. Turn strings into ids with "
            "`tf.strings.to_hash_bucket_strong(strings, 2**63 - 1, key)` for a dynamic table, with "
            "`keras.layers.StringLookup` for a static one; cast booleans. Received: inputs of "
            f"dtype {dtype.name}"
        )
    if input_dim is None or input_dim > _EXACT_INTEGERS.get(dtype.name, 0):
        raise FloatIdsError(
            "`inputs` must be integers, as floats do not hold every id there may be. Give ids as "
            'int64, for example from `keras.Input(shape, dtype="int64")`. Received: inputs of '
            f"dtype {dtype.name}" + ("" if input_dim is None else f" for input_dim={input_dim}")
        )


def check_bags(shape, combiner):
    """Raises a ValueError if inputs of this shape are no bags: their batch would be pooled."""
    rank = tf.TensorShape(shape).rank
    if combiner is not None and rank is not None and rank < 2:
        raise ValueError(
            "`inputs` must have an axis of samples and one of ids to pool with a combiner: "
            "(batch_size, hotness), from `keras.Input((hotness,))`. For one id a sample leave the "
            f"combiner out, or give (batch_size, 1). Received: inputs of shape {tuple(shape)} with "
            f"combiner='{combiner}'"
        )


@on_cpu
def ragged_form(inputs, weights, combiner, input_dim, mask_zero=False, padding_id=None):
    """Brings inputs into ragged form.

    Args:
        inputs: Tensor of any rank, 2-D RaggedTensor or 2-D SparseTensor.
        weights: `None`, or of the same kind and structure as `inputs`.
        combiner: String, or `None` for a row an id.
        input_dim: Integer, or `None` for a dynamic table.
        mask_zero: Boolean. Whether id 0 is padding, which a bag leaves out. Defaults to `False`.
        padding_id: Integer: an id that is not looked up, in bags or one by one. Defaults to `None`.

    Returns:
        A `RaggedForm`.
    """
    _check_same_kind(inputs, weights)
    if isinstance(inputs, tf.SparseTensor) and combiner is None:
        # As in Keras: what is missing reads as id 0, unless there is an id for it.
        inputs = to_dense(inputs, padding_id)
        weights = None if weights is None else to_dense(weights)
    if isinstance(inputs, tf.RaggedTensor):
        form = _of_ragged(inputs, weights, combiner)
    elif isinstance(inputs, tf.SparseTensor):
        form = _of_sparse(inputs, weights)
    else:
        may_leave_out = mask_zero or padding_id is not None
        form = _of_dense(inputs, weights, combiner, may_leave_out)
    form.ids = to_int64(form.ids, input_dim)
    if form.weights is not None:
        form.weights = tf.cast(form.weights, tf.float32)
    if padding_id is not None:
        leave_out(form, padding_id)
    elif mask_zero and form.row_splits is not None:
        leave_out(form, 0)
    return form


def _of_dense(inputs, weights, combiner, may_leave_out):
    flat_weights = None if weights is None else flat(weights)
    hotness = inputs.shape[-1] if inputs.shape.rank else None
    if combiner is None:
        return RaggedForm(flat(inputs), None, flat_weights, lambda rows: unflatten(rows, inputs))
    check_bags(inputs.shape, combiner)
    if hotness == 1 and weights is None and not may_leave_out:  # a bag of one id reads as its row
        row_splits = None
    else:
        bags = tf.shape(inputs, tf.int64)
        num_bags = bags[0] if inputs.shape.rank == 2 else tf.reduce_prod(bags[:-1])
        row_splits = tf.range(num_bags + 1) * (bags[-1] if hotness is None else hotness)
    return RaggedForm(
        flat(inputs),
        row_splits,
        flat_weights,
        lambda rows: unflatten(rows, inputs, -1),
    )


def _of_ragged(inputs, weights, combiner):
    if inputs.ragged_rank != 1 or inputs.flat_values.shape.rank != 1:
        raise ValueError(
            "`inputs` must be 2-D if it is a RaggedTensor: (batch_size, hotness). Received: inputs "
            f"of shape {inputs.shape} with ragged_rank={inputs.ragged_rank}"
        )
    flat_weights = None
    if weights is not None:
        flat_weights = weights.flat_values
        if weights.row_splits is not inputs.row_splits:
            splits = tf.cast(weights.row_splits, inputs.row_splits.dtype)
            message = "`weights` must have the row_splits of `inputs`."
            with tf.control_dependencies(
                [tf.debugging.assert_equal(splits, inputs.row_splits, message)]
            ):
                flat_weights = tf.identity(flat_weights)
    if combiner is None:
        return RaggedForm(inputs.values, None, flat_weights, inputs.with_values)
    row_splits = tf.cast(inputs.row_splits, tf.int64)
    return RaggedForm(inputs.values, row_splits, flat_weights, lambda rows: rows)


def _of_sparse(inputs, weights):
    if inputs.shape.rank != 2:
        raise ValueError(
            "`inputs` must be 2-D if it is a SparseTensor: (batch_size, hotness). Received: inputs "
            f"of shape {inputs.shape}"
        )
    inputs = tf.sparse.reorder(inputs)  # costs little where it is in order already
    flat_weights = None
    if weights is not None:
        weights = tf.sparse.reorder(weights)
        message = "`weights` must have the indices of `inputs`."
        with tf.control_dependencies(
            [tf.debugging.assert_equal(weights.indices, inputs.indices, message)]
        ):
            flat_weights = tf.identity(weights.values)
    bags = tf.range(inputs.dense_shape[0] + 1)
    row_splits = tf.searchsorted(inputs.indices[:, 0], bags, out_type=tf.int64)
    return RaggedForm(inputs.values, row_splits, flat_weights, lambda rows: rows)


def _check_same_kind(inputs, weights):
    if weights is None:
        return
    kinds = (tf.RaggedTensor, tf.SparseTensor)
    same = all(isinstance(inputs, kind) == isinstance(weights, kind) for kind in kinds)
    if not same or not inputs.shape.is_compatible_with(weights.shape):
        raise ValueError(
            "`weights` must have the structure of `inputs`, one weight per id. Received: inputs "
            f"{type(inputs).__name__} of shape {inputs.shape}, weights {type(weights).__name__} of "
            f"shape {weights.shape}"
        )


def flat(tensor):
    """Returns a tensor with its axes as one."""
    return tensor if tensor.shape.rank == 1 else tf.reshape(tensor, (-1,))


def unflatten(rows, inputs, end=None):
    """Reshapes rows to the axes of the inputs, up to `end`, then the row's."""
    shape = inputs.shape[:end]
    if shape.rank == 1:
        return rows
    if shape.rank is not None:
        sizes = shape.as_list()
        if sizes.count(None) <= 1 and 0 not in sizes:
            sizes = [-1 if size is None else size for size in sizes]
            return tf.reshape(rows, [*sizes, rows.shape[-1]])
    rows_shape = _dynamic_shape(inputs, end, rows.shape[-1])
    return tf.ensure_shape(tf.reshape(rows, rows_shape), shape.concatenate(rows.shape[-1]))


@on_cpu
def _dynamic_shape(inputs, end, width):
    return tf.concat([tf.shape(inputs)[:end], [width]], axis=0)


def cast_rows(rows, dtype):
    """Returns rows that a lookup gives as a layer's compute dtype, a string."""
    return rows if rows.dtype == dtype else tf.cast(rows, dtype)


def row_dtype(compute_dtypes, forms):
    """Returns what a lookup is to write its rows in: what its outputs are to be, where it can.

    Args:
        compute_dtypes: List of strings, one an input: what its output is to be.
        forms: List of `RaggedForm`, one an input.

    Returns:
        String, one of `ROW_DTYPES`. `"float32"` where outputs are to be of several dtypes or of
        another one, or are made of rows that still have to be multiplied by weights.
    """
    first = compute_dtypes[0]
    is_same = first in native.ROW_DTYPES and all(each == first for each in compute_dtypes)
    are_done = all(form.weights is None or form.row_splits is not None for form in forms)
    return first if is_same and are_done else "float32"
