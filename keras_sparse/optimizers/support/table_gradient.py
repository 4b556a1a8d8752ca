import dataclasses
from typing import Any

import tensorflow as tf

from keras_sparse import native
from keras_sparse.tables.embedding_variable import EmbeddingVariable


@dataclasses.dataclass(frozen=True, eq=False)
class TableGradient:
    """The gradient of an embedding variable in a step.

    Attributes:
        variable: `EmbeddingVariable`.
        ids: int64 tensor of shape `(num_ids,)`.
        values: Tensor: the gradients of rows, `(num_ids, output_dim)`, or of bags.
        row_splits, weights, combiner, columns: How the ids were pooled and joined with others, as
            in `keras_sparse.ops.PooledSlices`. Default to `None`: the gradient is that of rows.
        is_more: Boolean. Whether it is of one more lookup of the variable before it in a list.
            Defaults to `False`.
    """

    variable: EmbeddingVariable
    ids: tf.Tensor
    values: tf.Tensor
    row_splits: tf.Tensor | None = None
    weights: tf.Tensor | None = None
    combiner: str | None = None
    columns: tuple[int, int] | None = None
    is_more: bool = False

    def with_values(self, values):
        """Returns the gradient with other values."""
        return dataclasses.replace(self, values=values)

    @property
    def part(self):
        """The `TablePart` that this rank has of the variable's table; `None` if it has all."""
        return self.variable.part


def table_gradient(variable, grad):
    """Returns the `TableGradient` of an embedding variable.

    Args:
        variable: `EmbeddingVariable`.
        grad: `tf.IndexedSlices`.
    """
    _check_slices(grad, variable)
    if isinstance(grad, native.PooledSlices):
        bags = (grad.row_splits, grad.weights, grad.combiner, grad.columns)
        return TableGradient(variable, grad.ids, grad.output_grads, *bags)
    ids, values = tf.cast(grad.indices, tf.int64), tf.cast(grad.values, tf.float32)
    return TableGradient(variable, ids, values)


def gradients_of_lookups(gradient):
    """Returns the gradients of the lookups whose sum a `TableGradient` is, as a list.

    TensorFlow joins the gradients of several lookups of a variable, and merges those of pooled rows
    for that. In a graph the update reads their bags instead. Nothing reads the merged ones then, so
    TensorFlow does not run the op that merges.
    """
    values, ids = _joined(gradient.values), _joined(gradient.ids)
    if not len(values) == len(ids) > 1 or gradient.row_splits is not None:
        return [gradient]
    parts = [
        _of_lookup(gradient.variable, *each, is_more=place > 0)
        for place, each in enumerate(zip(ids, values, strict=True))
    ]
    if None in parts or len({each.values.dtype for each in parts}) > 1:
        return [gradient]
    # In memory, joined rows are as good as rows that the update joins.
    helps = any(each.combiner for each in parts) or "GPU" in gradient.variable.native.device
    return parts if helps else [gradient]


def _joined(tensor):
    """The tensors that a tensor of a graph puts one after the other."""
    if not tf.is_symbolic_tensor(tensor) or tensor.op.type != "ConcatV2":
        return [tensor]
    *tensors, axis = tensor.op.inputs
    return tensors if tf.get_static_value(axis) == 0 else [tensor]


def _of_lookup(variable, ids, values, is_more):
    """The gradient of a lookup in a graph; `None` if these tensors are not such a gradient."""
    op = values.op if tf.is_symbolic_tensor(values) else None
    if op is None or op.type != "KerasSparseMergeGradients":
        # The gradient of a lookup has ids of its own: see `lookup_gradient`.
        looked_up = ids.op.inputs[0] if ids.op.type == "Identity" else ids
        if any(each.type == "KerasSparseLookup" for each in looked_up.consumers()):
            return TableGradient(variable, ids, values, is_more=is_more)
        return None
    if ids.op is not op or op.get_attr("N") > 1:
        return None
    ids, row_splits, weights, values = op.inputs  # `PooledSlices` merges those of one lookup
    columns = [*zip(op.get_attr("columns"), op.get_attr("widths"), strict=True)]
    return TableGradient(
        variable,
        ids,
        values,
        row_splits,
        weights,
        op.get_attr("combiners")[0].decode(),
        columns[0] if columns else None,
        is_more,
    )


def merge(gradients):
    """Sums the gradients of equal ids, for all variables whose tables are on a device in one op.

    Args:
        gradients: List of `TableGradient`.

    Returns:
        List of `TableGradient` in which no id repeats, but with values of -0 for a table that
        counts occurrences. The values of ids without a row are zeros, so that they do not count in
        a norm.
    """
    merged: list[Any] = [None] * len(gradients)
    for group in native.device_groups([each.variable for each in gradients]):
        of_group = [gradients[place] for place in group]
        ids, sums = native.merge_gradients(
            **lists_of(of_group),
            device=of_group[0].variable.native.device,
            max_entries=[native.max_entries(each.variable) for each in of_group],
        )
        for place, *each in zip(group, ids, sums, strict=True):
            merged[place] = _without_rowless(TableGradient(gradients[place].variable, *each))
    return merged


def lists_of(gradients):
    """Returns the arguments, one list each, that `native.merge_gradients` takes of gradients."""
    columns = None
    if any(each.columns is not None for each in gradients):
        columns = [each.columns or (0, each.variable.output_dim) for each in gradients]
    return {
        "ids": [each.ids for each in gradients],
        "values": [each.values for each in gradients],
        "row_splits": [each.row_splits for each in gradients],
        "weights": [each.weights for each in gradients],
        "combiners": [each.combiner for each in gradients],
        "columns": columns,
    }


def _without_rowless(gradient):
    variable = gradient.variable
    if variable.is_dynamic or variable.out_of_range == "error":
        return gradient
    has_row = (gradient.ids >= 0) & (gradient.ids < variable.input_dim)
    return gradient.with_values(tf.where(has_row[:, tf.newaxis], gradient.values, 0.0))


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
