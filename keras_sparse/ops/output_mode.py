"""Outputs of several inputs: a list of them, or all in one tensor."""

import functools

import tensorflow as tf

from keras_sparse import checks

OUTPUT_MODES = ("list", "concat", "stack")


def check_output_mode(mode, widths):
    """Returns `mode`.

    Args:
        mode: String, one of `OUTPUT_MODES`.
        widths: List of integers: `output_dim` of the table of each input.

    Raises:
        ValueError: It is another string, or outputs of these widths cannot be stacked.
    """
    checks.one_of(mode, OUTPUT_MODES, "output_mode")
    if mode == "stack" and len(set(widths)) > 1:
        raise ValueError(
            '`output_mode="stack"` must be that of tables of one width. Give them the same '
            f'`output_dim`, or use "concat". Received: widths {list(widths)}'
        )
    return mode


def joined_shape(shapes, mode):
    """Returns the shape of what outputs of these shapes are joined to, a `tf.TensorShape`.

    Raises:
        ValueError: They differ in more than their width.
    """
    shapes = [tf.TensorShape(shape) for shape in shapes]
    first, *others = [shape[:-1] for shape in shapes]
    if not all(first.is_compatible_with(other) for other in others):
        raise ValueError(
            "Outputs in one tensor must have the same shape but for their width. Give the inputs "
            "the same shape, pool them with a combiner, or leave out `output_mode`. Received: "
            f"outputs of shapes {[tuple(shape) for shape in shapes]}"
        )
    lead = functools.reduce(lambda one, other: one.merge_with(other), others, first)
    widths = [shape[-1] for shape in shapes]
    return lead.concatenate([len(widths), widths[0]] if mode == "stack" else [sum(widths)])


def joined_mask(masks):
    """Returns the mask of what outputs with these masks, or `None`, are joined to: as
    `keras.layers.Concatenate` has it, what each of them masks.
    """
    if any(mask is None for mask in masks):
        return None
    return functools.reduce(tf.logical_or, masks)


def join(outputs, mode):
    """Joins outputs that are tensors of their own.

    Args:
        outputs: List of tensors or RaggedTensors of shapes `(..., width)`, which differ in width at
            most.
        mode: `"concat"` or `"stack"`.

    Returns:
        Tensor of shape `(..., sum of widths)` or `(..., number of outputs, width)`.
    """
    joined_shape([each.shape for each in outputs], mode)
    if not any(isinstance(each, tf.RaggedTensor) for each in outputs):
        return split_inputs(tf.concat(outputs, axis=-1), len(outputs), mode)
    checked = [_same_splits(outputs[0], each) for each in outputs[1:]]
    with tf.control_dependencies([each for each in checked if each is not None]):
        flat = tf.concat([each.flat_values for each in outputs], axis=-1)
    return split_inputs(outputs[0].with_flat_values(flat), len(outputs), mode)


def _same_splits(one, other):
    return tf.debugging.assert_equal(
        one.row_splits,
        tf.cast(other.row_splits, one.row_splits.dtype),
        "Ragged outputs in one tensor must have the same row_splits.",
    )


def split_inputs(joined, num_inputs, mode):
    """Gives the inputs of a joined output an axis of their own, for `"stack"`. Copies nothing."""
    if mode != "stack":
        return joined
    if isinstance(joined, tf.RaggedTensor):
        return joined.with_flat_values(split_inputs(joined.flat_values, num_inputs, mode))
    last = [num_inputs, joined.shape[-1] // num_inputs]
    lead = joined.shape[:-1].as_list()
    if lead.count(None) <= 1 and 0 not in lead:
        return tf.reshape(joined, [-1 if size is None else size for size in lead] + last)
    reshaped = tf.reshape(joined, tf.concat([tf.shape(joined)[:-1], last], axis=0))
    return tf.ensure_shape(reshaped, lead + last)
