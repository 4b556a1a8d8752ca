import tensorflow as tf

from keras_sparse import native


class RowGradient:
    """Rows of an embedding variable that a step has gradients for.

    Stands for the variable in the list that goes through Keras' `apply`, beside the values of its
    gradient. It has what Keras reads of a variable there, so that Keras can drop it when it has no
    gradient, and warn by its path.

    Args:
        variable: `EmbeddingVariable`.
        ids: int64 tensor of shape `(num_ids,)`, or `None` if there is no gradient.
        row_splits, weights, combiner, columns: How the ids were pooled and joined with others,
            where they were: as in `keras_sparse.ops.PooledSlices`. Default to `None`: the gradient
            is that of rows.
    """

    constraint = None  # refused when the optimizer is built
    overwrite_with_gradient = False

    def __init__(self, variable, ids, row_splits=None, weights=None, combiner=None, columns=None):
        self.variable = variable
        self.ids = ids
        self.row_splits = row_splits
        self.weights = weights
        self.combiner = combiner
        self.columns = columns
        self.path = variable.path


def row_gradient(variable, grad):
    """Takes the gradient of an embedding variable apart.

    Args:
        variable: `EmbeddingVariable`.
        grad: `tf.IndexedSlices`.

    Returns:
        `(RowGradient, values)`.
    """
    _check_slices(grad, variable)
    if isinstance(grad, native.PooledSlices):
        bags = (grad.row_splits, grad.weights, grad.combiner, grad.columns)
        return RowGradient(variable, grad.ids, *bags), grad.output_grads
    ids = tf.cast(grad.indices, tf.int64)
    return RowGradient(variable, ids), tf.cast(grad.values, tf.float32)


def merge(touched, values):
    """Sums the gradients of equal ids, for all variables whose tables are on a device in one op.

    Args:
        touched: List of `RowGradient`.
        values: List of tensors: the gradients of rows or bags.

    Returns:
        `(touched, values)` in which no id repeats, but with values of -0 for a table that counts
        occurrences. The values of ids without a row are zeros, so that they do not count in a norm.
    """
    merged, sums = list(touched), list(values)
    for group in native.device_groups([rows.variable for rows in touched]):
        of_group = [touched[place] for place in group]
        ids, sums_of_group = native.merge_gradients(
            [rows.ids for rows in of_group],
            [values[place] for place in group],
            [rows.row_splits for rows in of_group],
            [rows.weights for rows in of_group],
            [rows.combiner for rows in of_group],
            columns_of(of_group),
            of_group[0].variable.native.device,
            [native.max_entries(rows.variable) for rows in of_group],
        )
        for place, each, sum_of_each in zip(group, ids, sums_of_group, strict=True):
            merged[place] = RowGradient(touched[place].variable, each)
            sums[place] = _without_rowless(merged[place], sum_of_each)
    return merged, sums


def columns_of(touched):
    """Returns which columns of the values are whose gradient, or `None` where all have their own.

    Args:
        touched: List of `RowGradient`.
    """
    if all(rows.columns is None for rows in touched):
        return None
    return [rows.columns or (0, rows.variable.output_dim) for rows in touched]


def _without_rowless(rows, values):
    variable = rows.variable
    if variable.is_dynamic or variable.out_of_range == "error":
        return values
    has_row = (rows.ids >= 0) & (rows.ids < variable.input_dim)
    return tf.where(has_row[:, tf.newaxis], values, 0.0)


def _check_slices(grad, variable):
    if not isinstance(grad, tf.IndexedSlices):
        raise TypeError(
            "The gradient of an embedding variable must be `tf.IndexedSlices`, as "
            "`tape.gradient` gives it for a loss on looked-up rows. A loss on the variable itself "
            f"has none. Received: {type(grad).__name__} of shape {grad.shape} for "
            f"'{variable.path}'"
        )
    part = variable.part
    if part is None or not part.renumbers_ids:
        return
    # The ids of this gradient count the rows of the part; those of one made by hand may not.
    shape = None if grad.dense_shape is None else tf.get_static_value(grad.dense_shape)
    if grad.dense_shape is None or (shape is not None and tuple(shape) != part.shape):
        raise ValueError(
            f"The gradient of a part of table '{variable.path}', whose rows ranks share, must be "
            f"that of a lookup: `tf.IndexedSlices` with dense_shape={part.shape}. Write rows by "
            f"the layer's `assign`. Received: dense_shape={shape}"
        )


def split_row_gradients(variables):
    """Returns those of the variables of a step that are `RowGradient`, and the others: lists."""
    touched = [v for v in variables if isinstance(v, RowGradient)]
    return touched, [v for v in variables if not isinstance(v, RowGradient)]
