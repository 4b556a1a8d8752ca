"""Outputs of several inputs: a list of them, or all in one tensor."""

import functools

import keras
import tensorflow as tf

from keras_sparse.utils import checks

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
    if mode != "list" and not widths:
        raise ValueError(
            f'`output_mode="{mode}"` must be that of at least one table. Received: none'
        )
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
    if any(shape.rank is None for shape in shapes):
        return tf.TensorShape(None)
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


def joined_mask(masks, mode):
    """Returns the mask of what outputs with these masks, or `None`, are joined to.

    Stacked inputs keep a mask each. Side by side they have what each of them masks, as
    `keras.layers.Concatenate` has it.
    """
    given = [mask for mask in masks if mask is not None]
    if not given:
        return None
    if mode == "stack":
        nothing = keras.ops.ones_like(given[0])
        return keras.ops.stack([nothing if mask is None else mask for mask in masks], axis=-1)
    if len(given) < len(masks):
        return None
    return functools.reduce(keras.ops.logical_or, masks)


def check_same_kind(are_ragged):
    """Raises ValueError if some outputs are ragged and others are not; one Boolean an output."""
    if any(are_ragged) and not all(are_ragged):
        raise ValueError(
            "Outputs in one tensor must all be ragged, or none of them. Pool the inputs with a "
            "combiner, or give all in one form. Received: ragged ones at "
            f"{[i for i, is_ragged in enumerate(are_ragged) if is_ragged]} of {len(are_ragged)}"
        )


def join(outputs, mode):
    """Joins outputs that are tensors of their own.

    Args:
        outputs: List of tensors or RaggedTensors of shapes `(..., width)`, which differ in width at
            most.
        mode: `"concat"` or `"stack"`.

    Returns:
        Tensor of shape `(..., sum of widths)` or `(..., number of outputs, width)`.
    """
    check_same_kind([isinstance(each, tf.RaggedTensor) for each in outputs])
    joined_shape([each.shape for each in outputs], mode)
    if not isinstance(outputs[0], tf.RaggedTensor):
        return split_inputs(tf.concat(outputs, axis=-1), len(outputs), mode)
    checked = [each for other in outputs[1:] for each in _same_splits(outputs[0], other)]
    with tf.control_dependencies([each for each in checked if each is not None]):
        flat = tf.concat([each.flat_values for each in outputs], axis=-1)
    return split_inputs(outputs[0].with_flat_values(flat), len(outputs), mode)


def _same_splits(one, other):
    message = (
        "Ragged outputs in one tensor must have the same row_splits. Pool the inputs with a "
        "combiner, or leave out `output_mode`."
    )
    if one.ragged_rank != other.ragged_rank:
        raise ValueError(f"{message} Received: {one.ragged_rank} and {other.ragged_rank} of them")
    for mine, theirs in zip(one.nested_row_splits, other.nested_row_splits, strict=True):
        # Their number first: TensorFlow would broadcast those of an empty batch.
        size = tf.debugging.assert_equal(tf.size(mine), tf.size(theirs), message)
        with tf.control_dependencies([] if size is None else [size]):
            yield tf.debugging.assert_equal(mine, tf.cast(theirs, mine.dtype), message)


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
