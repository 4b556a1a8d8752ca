"""The DLRM of W4 as users of TensorFlow and Keras write it: a matrix of ids in, the rows of all
tables in one tensor, with an axis of tables.

The dense part is Keras layers in a `tf.function`, the same for every way to keep the tables; XLA is
off, as the sparse ops of TensorFlow and ours have no XLA kernels.
"""

import keras
import numpy as np
import tensorflow as tf

import keras_sparse
from benchmarks.peers import as_written_tensorflow
from benchmarks.peers import keras_layers
from benchmarks.workloads import dense_features_and_labels

# Stands in for optimizers that Keras lacks.
DENSE_RULES = {"row_wise_adagrad": "adagrad", "lazy_adam": "adam"}


class DensePart:
    """Bottom MLP, dot interaction, top MLP, binary cross-entropy."""

    def __init__(self, num_tables):
        self.bottom = keras.Sequential([keras.layers.Dense(n, "relu") for n in (64, 32)])
        top = [keras.layers.Dense(n, "relu") for n in (128, 64)]
        self.top = keras.Sequential([*top, keras.layers.Dense(1)])
        num_vectors = num_tables + 1
        left, right = np.tril_indices(num_vectors, -1)
        self.pairs = tf.constant(left * num_vectors + right, tf.int32)
        self.bottom.build((None, 13))
        self.top.build((None, 32 + len(left)))
        self.num_vectors = num_vectors

    @property
    def variables(self):
        return self.bottom.trainable_variables + self.top.trainable_variables

    def loss(self, features, rows, labels):
        """`rows` are `(batch_size, num_tables, output_dim)`."""
        bottom = self.bottom(features)
        vectors = tf.concat([bottom[:, tf.newaxis], rows], axis=1)
        products = tf.matmul(vectors, vectors, transpose_b=True)
        products = tf.reshape(products, (-1, self.num_vectors**2))
        products = tf.gather(products, self.pairs, axis=1)
        logits = self.top(tf.concat([bottom, products], axis=1))[:, 0]
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))


def bind(workload, step):
    """Returns the function of a batch's number that is timed."""
    features, labels = map(tf.constant, dense_features_and_labels(workload))
    ids = [tf.constant(each) for each in workload.id_matrices()]
    compiled = tf.function(step)
    return lambda i: compiled(ids[i], features, labels)


def build_with_lookup(workload, tables, lookup, optimizer):
    """A model whose tables are variables that `lookup(ids)` reads."""
    dense = DensePart(workload.num_tables)
    variables = tables + dense.variables
    optimizer.build(variables)

    def step(ids, features, labels):
        with tf.GradientTape() as tape:
            loss = dense.loss(features, lookup(ids), labels)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    return bind(workload, step)


def build_with_update(workload, column, lookup, update):
    """A model whose rows no tape knows to be those of variables: `update(ids, grads)` takes what
    arrives at them.
    """
    dense = DensePart(workload.num_tables)
    optimizer = keras_layers.make_optimizer(DENSE_RULES.get(column, column))
    optimizer.build(dense.variables)

    def step(ids, features, labels):
        rows = lookup(ids)
        with tf.GradientTape() as tape:
            tape.watch(rows)
            loss = dense.loss(features, rows, labels)
        row_grads, grads = tape.gradient(loss, (rows, dense.variables))
        optimizer.apply(grads, dense.variables)
        return loss, update(ids, row_grads)

    return bind(workload, step)


def build_ours(workload, column):
    group = as_written_tensorflow.make_group(workload, "stack")
    optimizer = keras_layers.make_optimizer(column, keras_sparse)
    return build_with_lookup(workload, group.trainable_variables, group, optimizer)


def build_keras(workload, column):
    layers = keras_layers.make_layers(workload)
    read = keras_layers.make_lookup(workload, layers)

    def lookup(ids):
        return tf.stack(read(tf.unstack(ids, axis=1), None), axis=1)

    tables = [layer.embeddings for layer in layers]
    return build_with_lookup(workload, tables, lookup, keras_layers.make_optimizer(column))


def build_by_hand(workload, column):
    table = as_written_tensorflow.OneTable(workload, column)
    return build_with_update(workload, column, table.lookup, table.apply)


def build_dense_alone(workload, column):
    """No tables: the rows are given, their gradient is made and dropped."""
    given = tf.stack(workload.output_grads(), axis=1)
    return build_with_update(workload, column, lambda ids: given, lambda ids, grads: grads)
