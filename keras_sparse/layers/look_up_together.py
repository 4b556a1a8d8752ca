import tensorflow as tf

from keras_sparse import ops
from keras_sparse.layers.ragged_form import ragged_form


def look_up_together(layers, inputs, weights):
    """Returns the outputs of built `Embedding` layers, looked up in one native op.

    Args:
        layers: List of `Embedding`, one a call. A layer may be there several times.
        inputs, weights: Lists of what each takes; `None` for an input without weights.
    """
    forms = ragged_forms(layers, inputs, weights)
    pooled = [form.row_splits is not None for form in forms]
    calls = list(zip(layers, forms, pooled, strict=True))
    rows = ops.lookup(
        [layer.embeddings for layer in layers],
        [form.ids for form in forms],
        [form.row_splits for form in forms],
        [form.weights if pools else None for _, form, pools in calls],
        [layer.combiner if pools else None for layer, _, pools in calls],
    )
    outputs = []
    for each, (layer, form, pools) in zip(rows, calls, strict=True):
        if form.weights is not None and not pools:
            each *= form.weights[:, tf.newaxis]
        outputs.append(form.outputs(tf.cast(each, layer.compute_dtype)))
    return outputs


def ragged_forms(layers, inputs, weights):
    """Returns the `RaggedForm` of each input.

    Args:
        layers: List of `Embedding`, one an input: the options of its table.
        inputs, weights: Lists of tensors, one an input; `None` for an input without weights.
    """
    return [
        ragged_form(ids, weight, layer.combiner, layer.input_dim, layer.mask_zero)
        for ids, weight, layer in zip(inputs, weights, layers, strict=True)
    ]
