"""keras.layers.Embedding with a Keras optimizer, as a Keras user writes it.

Ragged bags are pooled by `tf.math.segment_sum`, the fastest of Keras' and TensorFlow's own ways
(a padded batch is slower). A dynamic table has no counterpart: its keys are hashed into a static
table by their remainder, so that keys collide.
"""

import keras
import numpy as np
import tensorflow as tf

OPTIMIZERS = {
    "forward": lambda: keras.optimizers.SGD(0.01),
    "sgd": lambda: keras.optimizers.SGD(0.01),
    "adagrad": lambda: keras.optimizers.Adagrad(0.01),
    "adam": lambda: keras.optimizers.Adam(0.001),
    "momentum": lambda: keras.optimizers.SGD(0.01, momentum=0.9),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.001),
    "adamw": lambda: keras.optimizers.AdamW(0.001),
    "amsgrad": lambda: keras.optimizers.Adam(0.001, amsgrad=True),
    "adamax": lambda: keras.optimizers.Adamax(0.001),
    "nadam": lambda: keras.optimizers.Nadam(0.001),
    "adadelta": lambda: keras.optimizers.Adadelta(1.0),
    "lion": lambda: keras.optimizers.Lion(0.0001),
    "ftrl": lambda: keras.optimizers.Ftrl(0.01),
}


def as_tensors(workload, i):
    """Ids of a batch and, if ragged, borders of its bags, for every table.

    One id a sample comes as one tensor of all tables, `(num_tables, batch_size)`: 26 arguments cost
    a call from Python 2 ms.
    """
    if not workload.row_splits:
        return tf.constant(np.stack(workload.ids[i])), []
    return [tf.constant(row) for row in workload.ids[i]], [
        tf.constant(row) for row in workload.row_splits[i]
    ]


def unstack(ids):
    """The ids of each table."""
    return ids if isinstance(ids, (list, tuple)) else tf.unstack(ids)


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


def bind(workload, column, lookup, step, train_first=True, in_one_call=False):
    """Compiles and returns the function of a batch's number that is timed.

    In one call it takes a step with each batch, whatever the number.
    """
    batches = [as_tensors(workload, i) for i in range(len(workload.ids))]
    grads = [tf.constant(grad) for grad in workload.output_grads()]
    signature = tf.nest.map_structure(
        lambda t: tf.TensorSpec(t.shape if t.shape.rank == 2 else [None], t.dtype), batches[0]
    )

    @tf.function(input_signature=signature)
    def read(ids, splits):
        return lookup(unstack(ids), splits)

    # The gradients are there already, as they are within a model: no arguments of each call.
    @tf.function(input_signature=signature)
    def train(ids, splits):
        return step(unstack(ids), splits, grads)

    @tf.function
    def train_all():
        for ids, splits in batches:
            step(unstack(ids), splits, grads)

    if in_one_call:
        return lambda i: train_all()
    if column != "forward":
        return lambda i: train(*batches[i])
    if train_first:
        for batch in batches:
            train(*batch)
    return lambda i: read(*batches[i])


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
