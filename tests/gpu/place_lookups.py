"""Looks rows up and updates them in every form of ids, on a machine that seems to have a GPU."""

import ctypes
import functools

import tensorflow as tf

import keras_sparse

tf.debugging.set_log_device_placement(True)
assert tf.config.list_logical_devices("GPU")

with tf.device("CPU"):  # as those of a dataset
    IDS = tf.constant([[3, 1, 0], [4, 1, 5]], tf.int64)
    IDS_32 = tf.constant([[3, 1, 0], [4, 1, 5]], tf.int32)
    WEIGHTS = tf.ones((2, 3))
    RAGGED = tf.ragged.constant([[3, 1], [4]], dtype=tf.int64, row_splits_dtype=tf.int64)
    SPARSE = tf.sparse.from_dense(tf.constant([[3, 0, 0], [0, 9, 0]], tf.int64))


def embedding(input_dim, combiner=None, **options):
    return keras_sparse.layers.Embedding(input_dim, 8, combiner=combiner, **options)


def inputs_of_layers():
    yield embedding(None), (IDS,)
    yield embedding(10, "mean"), (IDS,)
    yield embedding(10, "sum", mask_zero=True), (IDS_32,)
    yield embedding(None, "sqrtn"), (IDS, WEIGHTS)
    yield embedding(None, "sum"), (RAGGED,)
    yield embedding(None, "sum"), (SPARSE,)
    yield embedding(10), (SPARSE,)
    tables = [embedding(10, "sum"), embedding(None, "mean")]
    yield keras_sparse.layers.GroupEmbedding(tables, output_mode="concat"), ([IDS, IDS],)
    tables = [embedding(10, "sum"), embedding(None)]
    yield keras_sparse.layers.DistributedEmbedding(tables), ([RAGGED, IDS],)


def train(layer, inputs):
    optimizer = keras_sparse.optimizers.LazyAdam(0.1)

    # Shapes that only a step knows.
    @tf.function(reduce_retracing=True)
    def step(*inputs):
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(each) for each in tf.nest.flatten(layer(*inputs))])
        variables = layer.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)

    layer(*inputs)
    optimizer.build(layer.trainable_variables)
    step(*inputs)
    return [variable.num_rows for variable in layer.trainable_variables]


def is_pinned(tensor):
    address = tensor._numpy().ctypes.data  # of the tensor's own memory
    return bool(ctypes.CDLL("libcuda.so.1").fake_is_pinned(ctypes.c_void_p(address)))


def main():
    print()  # what TensorFlow has printed may end within a line
    for layer, inputs in inputs_of_layers():
        print("rows", *train(layer, inputs))
    table = keras_sparse.EmbeddingVariable(None, 8)
    look_up = tf.function(lambda ids: keras_sparse.ops.embedding_lookup(table, ids))
    look_up(IDS)
    look_up(RAGGED)
    with tf.device("CPU"):
        print("pinned", is_pinned(look_up(IDS)), is_pinned(tf.zeros((2, 3)) + 1))
    for pool in (
        keras_sparse.ops.embedding_lookup_sparse,
        functools.partial(keras_sparse.ops.safe_embedding_lookup_sparse, default_id=7),
    ):
        tf.function(functools.partial(pool, table))(SPARSE)


main()
