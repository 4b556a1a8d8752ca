"""W1 as users of TensorFlow and Keras write it: a matrix of ids in, one tensor
of rows out.

Whatever that takes is timed: the matrix is taken apart, the rows are joined, and the gradient of
both. The gradient of the output is one tensor, as a dense layer gives it.
"""

import keras
import tensorflow as tf

import keras_sparse
from benchmarks.peers import keras_layers
from benchmarks.peers import tensorflow_variable


def bind(workload, column, lookup, step):
    """Compiles the function of a batch's number that is timed."""
    batches = [(tf.constant(each),) for each in workload.id_matrices()]
    grads = tf.constant(workload.joined_output_grads())
    signature = [tf.TensorSpec([None, workload.num_tables], tf.int64)]
    return keras_layers.compile_steps(
        batches, column, lookup, lambda ids: step(ids, grads), signature
    )


def in_tensorflow(workload, column, lookup, optimizer, variables):
    """Of a lookup that is differentiated by a tape."""
    optimizer.build(variables)
    step = keras_layers.make_step(lookup, optimizer, variables)
    return bind(workload, column, lookup, step)


def make_group(workload, output_mode):
    """The layer of all tables, built."""
    layers = [
        keras_sparse.layers.Embedding(workload.input_dim, workload.output_dim)
        for _ in range(workload.num_tables)
    ]
    group = keras_sparse.layers.GroupEmbedding(layers, output_mode=output_mode)
    group.build()
    return group


def build_ours(workload, column):
    group = make_group(workload, "concat")
    optimizer = keras_layers.make_optimizer(column, keras_sparse)
    return in_tensorflow(workload, column, group, optimizer, group.trainable_variables)


def build_keras(workload, column):
    layers = keras_layers.make_layers(workload)
    read = keras_layers.make_lookup(workload, layers)
    join = keras.layers.Concatenate()

    def lookup(ids):
        return join(read(tf.unstack(ids, axis=1), None))

    variables = [layer.embeddings for layer in layers]
    optimizer = keras_layers.make_optimizer(column)
    return in_tensorflow(workload, column, lookup, optimizer, variables)


class OneTable:
    """All rows in one variable, whose ids are told apart by an offset: a gather, and its apply."""

    def __init__(self, workload, column):
        shape = (workload.num_tables * workload.input_dim, workload.output_dim)
        self.table = tensorflow_variable.Table(*shape, column)
        self.column = column
        self.count = tf.Variable(0.0)
        self.offsets = workload.input_dim * tf.range(workload.num_tables, dtype=tf.int64)

    def lookup(self, ids):
        """Returns the rows of a matrix, `(batch_size, num_tables, output_dim)`."""
        return self.table.gather(self.table.rows, ids + self.offsets)

    def apply(self, ids, grads):
        by_id = tf.reshape(grads, (-1, grads.shape[-1]))
        flat_ids = tf.reshape(ids + self.offsets, (-1,))
        self.table.apply(self.column, flat_ids, by_id, self.count.assign_add(1.0))


def build_tensorflow(workload, column):
    table = OneTable(workload, column)
    width = workload.num_tables * workload.output_dim

    def lookup(ids):
        return tf.reshape(table.lookup(ids), (-1, width))

    def step(ids, grads):
        rows = lookup(ids)
        with tf.control_dependencies([rows]):
            table.apply(ids, tf.reshape(grads, (-1, workload.num_tables, workload.output_dim)))
        return rows

    return bind(workload, column, lookup, step)
