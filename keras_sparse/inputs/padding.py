"""Ids that stand for nothing: they have no row, and nothing learns from them."""

import keras
import tensorflow as tf

from keras_sparse.utils import checks


def check_padding_id(padding_id, mask_zero):
    """Returns the `padding_id` of a layer; raises unless it may have it beside its `mask_zero`."""
    padding_id = checks.integer_or_none(padding_id, "padding_id")
    if padding_id is not None and not -(2**63) <= padding_id < 2**63:
        raise ValueError(
            "`padding_id` must fit int64. For a uint64 id from 2**63 on, subtract 2**64. "
            f"Received: padding_id={padding_id}"
        )
    if padding_id is not None and mask_zero:
        raise ValueError(
            "`padding_id` must be None with mask_zero=True, because id 0 is padding then. "
            f"Received: padding_id={padding_id}"
        )
    return padding_id


def leave_out(form, padding_id):
    """Takes an id out of the bags of a form, or makes gaps of zeros where its rows would be.

    Args:
        form: `keras_sparse.inputs.ragged_inputs.RaggedForm`, which is changed.
        padding_id: Integer.
    """
    kept = tf.not_equal(form.ids, padding_id)
    if form.row_splits is None:
        _make_gaps(form, kept)
    else:
        num_before = tf.concat([[0], tf.cumsum(tf.cast(kept, tf.int64))], axis=0)
        form.row_splits = tf.gather(num_before, form.row_splits)
    form.ids = tf.boolean_mask(form.ids, kept)
    if form.weights is not None:
        form.weights = tf.boolean_mask(form.weights, kept)


def _make_gaps(form, kept):
    places, num_ids = tf.where(kept), tf.size(kept, tf.int64)
    outputs = form.outputs

    def with_gaps(rows):
        shape = tf.stack([num_ids, rows.shape[-1]])
        spread = tf.scatter_nd(places, rows, shape)
        return outputs(tf.ensure_shape(spread, (None, rows.shape[-1])))

    form.outputs = with_gaps
    form.has_gaps = True


def to_dense(sparse, padding_id=None):
    """Returns a SparseTensor as a tensor, with `padding_id`, or 0, where it has nothing."""
    if padding_id is not None:
        sparse = tf.cast(sparse, tf.int64)  # which has the id
    dense = tf.sparse.to_dense(tf.sparse.reorder(sparse), padding_id)
    dense.set_shape(sparse.shape)
    return dense


def mask_of(ids, padding_id):
    """Returns where ids of any form are not padding: `padding_id`, or 0 if that is `None`."""
    if isinstance(ids, tf.SparseTensor):
        ids = to_dense(ids, padding_id)
    if padding_id is None:
        return keras.ops.not_equal(ids, 0)
    return keras.ops.not_equal(keras.ops.cast(ids, "int64"), padding_id)
