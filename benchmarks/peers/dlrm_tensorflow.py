"""The DLRM of W4 in TensorFlow: one dense part, and several ways to keep the tables.

The dense part is Keras layers in a `tf.function`, the same for every row; XLA is off, as the sparse
ops of TensorFlow and ours have no XLA kernels.
"""

import keras
import numpy as np
import tensorflow as tf

from benchmarks.peers import keras_layers
from benchmarks.peers import tensorflow_variable
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
        """`rows` are a list of `(batch_size, output_dim)`, or one tensor with an axis of tables."""
        bottom = self.bottom(features)
        if isinstance(rows, list):
            vectors = tf.stack([bottom, *rows], axis=1)
        else:
            vectors = tf.concat([bottom[:, tf.newaxis], rows], axis=1)
        products = tf.matmul(vectors, vectors, transpose_b=True)
        products = tf.reshape(products, (-1, self.num_vectors**2))
        products = tf.gather(products, self.pairs, axis=1)
        logits = self.top(tf.concat([bottom, products], axis=1))[:, 0]
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))


def bind(workload, step, is_matrix=False):
    """Returns the function of a batch's number that is timed.

    Its step gets the ids of each table, or of all in one matrix with a sample a row.
    """
    features, labels = map(tf.constant, dense_features_and_labels(workload))
    if is_matrix:
        ids = [tf.constant(each) for each in workload.id_matrices()]
    else:
        ids = [keras_layers.as_tensors(workload, i)[0] for i in range(len(workload.ids))]

    @tf.function
    def compiled(ids, features, labels):
        return step(ids if is_matrix else keras_layers.unstack(ids), features, labels)

    return lambda i: compiled(ids[i], features, labels)


def build_with_lookup(workload, tables, lookup, optimizer, is_matrix=False):
    """A model whose tables are variables that `lookup(ids)` reads."""
    dense = DensePart(workload.num_tables)
    variables = tables + dense.variables
    optimizer.build(variables)

    def step(ids, features, labels):
        with tf.GradientTape() as tape:
            loss = dense.loss(features, lookup(ids), labels)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    return bind(workload, step, is_matrix)


def build_with_update(workload, column, lookup, update, is_matrix=False):
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

    return bind(workload, step, is_matrix)


def build_ours_grouped(workload, column, storage="DRAM"):
    import keras_sparse
    from benchmarks.peers import ours

    tables = [layer.embeddings for layer in ours.make_layers(workload, storage)]

    def lookup(ids):
        return keras_sparse.ops.lookup(tables, ids)

    return build_with_lookup(
        workload, tables, lookup, keras_layers.make_optimizer(column, keras_sparse)
    )


def build_by_hand(workload, column):
    shape = (workload.input_dim, workload.output_dim)
    tables = [tensorflow_variable.Table(*shape, column) for _ in range(workload.num_tables)]
    count = tf.Variable(0.0)

    def lookup(ids):
        return [table.gather(table.rows, each) for table, each in zip(tables, ids, strict=True)]

    def update(ids, grads):
        number = count.assign_add(1.0)
        for table, each, grad in zip(tables, ids, grads, strict=True):
            table.apply(column, each, grad, number)

    return build_with_update(workload, column, lookup, update)


def build_dense_alone(workload, column):
    """No tables: the rows are given, their gradient is made and dropped."""
    given = [tf.constant(grad) for grad in workload.output_grads()]
    return build_with_update(workload, column, lambda ids: given, lambda ids, grads: grads)
