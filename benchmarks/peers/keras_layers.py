"""keras.layers.Embedding with a Keras optimizer, as a Keras user writes it.

Ragged bags are pooled by `tf.math.segment_sum`, the fastest of Keras' and TensorFlow's own ways
(a padded batch is slower). A dynamic table has no counterpart: its keys are hashed into a static
table by their remainder, so that keys collide.
"""

import keras
import tensorflow as tf

OPTIMIZERS = {
    "forward": lambda: keras.optimizers.SGD(0.01),
    "sgd": lambda: keras.optimizers.SGD(0.01),
    "adagrad": lambda: keras.optimizers.Adagrad(0.01),
    "lazy_adam": lambda: keras.optimizers.Adam(0.001),
}


def as_tensors(workload, i):
    """Ids of a batch and, if ragged, borders of its bags, for every table."""
    ids = [tf.constant(row) for row in workload.ids[i]]
    splits = workload.row_splits[i] if workload.row_splits else []
    return ids, [tf.constant(row) for row in splits]


def make_layers(workload):
    layers = [
        keras.layers.Embedding(workload.input_dim, workload.output_dim, name=f"table_{i}")
        for i in range(workload.num_tables)
    ]
    for layer in layers:
        layer.build()
    return layers


def make_lookup(workload, layers):
    """The forward function: one output a table."""

    def one(layer, ids, splits):
        if workload.dynamic:
            ids = ids % workload.input_dim
        rows = layer(ids)
        if splits is None:
            return rows
        bags = tf.repeat(tf.range(workload.batch_size), splits[1:] - splits[:-1])
        return tf.math.segment_sum(rows, bags)

    def lookup(ids, splits):
        splits = splits or [None] * len(ids)
        return [one(*each) for each in zip(layers, ids, splits, strict=True)]

    return lookup


def make_step(lookup, optimizer, variables):
    """One training step: forward, gradient, update."""

    def step(ids, splits, output_grads):
        with tf.GradientTape() as tape:
            outputs = lookup(ids, splits)
        grads = tape.gradient(outputs, variables, output_gradients=output_grads)
        optimizer.apply(grads, variables)
        return outputs

    return step


def bind(workload, column, lookup, step, train_first=True):
    """Compiles and returns the function of a batch's number that is timed."""
    batches = [as_tensors(workload, i) for i in range(len(workload.ids))]
    grads = [tf.constant(grad) for grad in workload.output_grads()]
    signature = tf.nest.map_structure(lambda t: tf.TensorSpec([None], t.dtype), batches[0])
    lookup = tf.function(lookup, input_signature=signature)
    # The gradients are there already, as they are within a model: no arguments of each call.
    train = tf.function(lambda ids, splits: step(ids, splits, grads), input_signature=signature)
    if column != "forward":
        return lambda i: train(*batches[i])
    if train_first:
        for batch in batches:
            train(*batch)
    return lambda i: lookup(*batches[i])


def build(workload, column, train_first=True):
    layers = make_layers(workload)
    variables = [layer.embeddings for layer in layers]
    optimizer = OPTIMIZERS[column]()
    optimizer.build(variables)
    lookup = make_lookup(workload, layers)
    step = make_step(lookup, optimizer, variables)
    return bind(workload, column, lookup, step, train_first)


def build_untrained(workload, column):
    """A table that no update has touched yet: TensorFlow then reads it without a copy."""
    return build(workload, column, train_first=False)
