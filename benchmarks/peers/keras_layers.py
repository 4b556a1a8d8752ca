"""keras.layers.Embedding with a Keras optimizer, as a Keras user writes it.

Ragged bags are pooled by `tf.math.segment_sum`, the fastest of Keras' and TensorFlow's own ways
(a padded batch is slower). A dynamic table has no counterpart: its keys are hashed into a static
table by their remainder, so that keys collide.
"""

import keras
import numpy as np
import tensorflow as tf

# By the column the name of the optimizer, in Keras as in ours, its learning rate and options.
RULES = {
    "forward": ("SGD", 0.01, {}),
    "sgd": ("SGD", 0.01, {}),
    "momentum": ("SGD", 0.01, {"momentum": 0.9}),
    "adagrad": ("Adagrad", 0.01, {}),
    "adagrad_decay": ("AdagradDecay", 0.01, {}),
    "row_wise_adagrad": ("RowWiseAdagrad", 0.01, {}),
    "rmsprop": ("RMSprop", 0.001, {}),
    "lazy_adam": ("LazyAdam", 0.001, {}),
    "adam": ("Adam", 0.001, {}),
    "adamw": ("AdamW", 0.001, {}),
    "amsgrad": ("Adam", 0.001, {"amsgrad": True}),
    "adamax": ("Adamax", 0.001, {}),
    "nadam": ("Nadam", 0.001, {}),
    "adadelta": ("Adadelta", 1.0, {}),
    "lion": ("Lion", 0.0001, {}),
    "ftrl": ("Ftrl", 0.01, {}),
}


def make_optimizer(column, package=keras):
    """The optimizer of a column, of Keras or of keras_sparse."""
    name, rate, options = RULES[column]
    return getattr(package.optimizers, name)(rate, **options)


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
    """One training step: forward, gradient, update. Its last argument is the outputs' gradient."""

    def step(*inputs):
        *ids, output_grads = inputs
        with tf.GradientTape() as tape:
            outputs = lookup(*ids)
        grads = tape.gradient(outputs, variables, output_gradients=output_grads)
        optimizer.apply(grads, variables)
        return outputs

    return step


def bind(workload, column, lookup, step, **options):
    """Compiles and returns the function of a batch's number that is timed.

    Lookup and step get ids and borders of each table, and a step the gradient of each output.
    """
    batches = [as_tensors(workload, i) for i in range(len(workload.ids))]
    grads = [tf.constant(grad) for grad in workload.output_grads()]
    signature = tf.nest.map_structure(
        lambda t: tf.TensorSpec(t.shape if t.shape.rank == 2 else [None], t.dtype), batches[0]
    )

    def read(ids, splits):
        return lookup(unstack(ids), splits)

    # The gradients are there already, as they are within a model: no arguments of each call.
    def train(ids, splits):
        return step(unstack(ids), splits, grads)

    return compile_steps(batches, column, read, train, signature, **options)


def compile_steps(batches, column, read, train, signature, in_one_call=False):
    """Returns the function of a batch's number that reads or trains.

    In one call it takes a step with each batch, whatever the number.
    """

    @tf.function
    def train_all():
        for batch in batches:
            train(*batch)

    if in_one_call:
        return lambda i: train_all()
    compiled_read = tf.function(read, input_signature=signature)
    compiled_train = tf.function(train, input_signature=signature)
    if column != "forward":
        return lambda i: compiled_train(*batches[i])
    for batch in batches:  # TensorFlow reads a trained table by a copy
        compiled_train(*batch)
    return lambda i: compiled_read(*batches[i])


def build(workload, column):
    layers = make_layers(workload)
    variables = [layer.embeddings for layer in layers]
    optimizer = make_optimizer(column)
    optimizer.build(variables)
    lookup = make_lookup(workload, layers)
    step = make_step(lookup, optimizer, variables)
    return bind(workload, column, lookup, step)
