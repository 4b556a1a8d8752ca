"""The DLRM of W4 as users of TensorFlow and Keras write it: a matrix of ids in, the rows of all
tables in one tensor, with an axis of tables.
"""

import functools

import tensorflow as tf

import keras_sparse
from benchmarks.peers import as_written_tensorflow
from benchmarks.peers import dlrm_tensorflow
from benchmarks.peers import keras_layers


def build_ours(workload, column, output_mode="stack"):
    group = as_written_tensorflow.make_group(workload, output_mode)

    def lookup(ids):
        if output_mode == "stack":
            return group(ids)
        return tf.stack(group(tf.unstack(ids, axis=1)), axis=1)

    optimizer = keras_layers.make_optimizer(column, keras_sparse)
    tables = group.trainable_variables
    return dlrm_tensorflow.build_with_lookup(workload, tables, lookup, optimizer, is_matrix=True)


build_ours_as_list = functools.partial(build_ours, output_mode="list")


def build_keras(workload, column):
    layers = keras_layers.make_layers(workload)
    read = keras_layers.make_lookup(workload, layers)

    def lookup(ids):
        return tf.stack(read(tf.unstack(ids, axis=1), None), axis=1)

    tables = [layer.embeddings for layer in layers]
    optimizer = keras_layers.make_optimizer(column)
    return dlrm_tensorflow.build_with_lookup(workload, tables, lookup, optimizer, is_matrix=True)


def build_by_hand(workload, column):
    table = as_written_tensorflow.OneTable(workload, column)
    return dlrm_tensorflow.build_with_update(
        workload, column, table.lookup, table.apply, is_matrix=True
    )


def build_dense_alone(workload, column):
    """No tables: the rows are given, their gradient is made and dropped."""
    given = tf.stack(workload.output_grads(), axis=1)
    return dlrm_tensorflow.build_with_update(
        workload, column, lambda ids: given, lambda ids, grads: grads, is_matrix=True
    )
