"""keras_sparse: as layers, each with its own lookup op, and as one grouped lookup of all tables.

Both update all tables by one native op, through `keras_sparse.optimizers`.
"""

import tensorflow as tf

import keras_sparse
from benchmarks.peers.keras_layers import bind
from benchmarks.peers.keras_layers import make_step

OPTIMIZERS = {
    "forward": lambda: keras_sparse.optimizers.SGD(0.01),
    "sgd": lambda: keras_sparse.optimizers.SGD(0.01),
    "adagrad": lambda: keras_sparse.optimizers.Adagrad(0.01),
    "lazy_adam": lambda: keras_sparse.optimizers.LazyAdam(0.001),
    "adam": lambda: keras_sparse.optimizers.Adam(0.001),
    "row_wise_adagrad": lambda: keras_sparse.optimizers.RowWiseAdagrad(0.01),
    "adagrad_decay": lambda: keras_sparse.optimizers.AdagradDecay(0.01),
    "momentum": lambda: keras_sparse.optimizers.SGD(0.01, momentum=0.9),
    "rmsprop": lambda: keras_sparse.optimizers.RMSprop(0.001),
    "adamw": lambda: keras_sparse.optimizers.AdamW(0.001),
    "amsgrad": lambda: keras_sparse.optimizers.Adam(0.001, amsgrad=True),
    "adamax": lambda: keras_sparse.optimizers.Adamax(0.001),
    "nadam": lambda: keras_sparse.optimizers.Nadam(0.001),
    "adadelta": lambda: keras_sparse.optimizers.Adadelta(1.0),
    "lion": lambda: keras_sparse.optimizers.Lion(0.0001),
    "ftrl": lambda: keras_sparse.optimizers.Ftrl(0.01),
}


def make_layers(workload, storage="DRAM"):
    layers = [
        keras_sparse.layers.Embedding(
            None if workload.dynamic else workload.input_dim,
            workload.output_dim,
            combiner=workload.combiner,
            storage=keras_sparse.StorageOption(storage),
            name=f"table_{i}",
        )
        for i in range(workload.num_tables)
    ]
    for layer in layers:
        layer.build((None, None) if workload.combiner else (None,))
    return layers


def finish(workload, column, variables, lookup, in_one_call):
    optimizer = OPTIMIZERS[column]()
    optimizer.build(variables)
    step = make_step(lookup, optimizer, variables)
    return bind(workload, column, lookup, step, in_one_call=in_one_call)


def build(workload, column, in_one_call=False):
    layers = make_layers(workload)

    def one(layer, ids, splits):
        if splits is None:
            return layer(ids)
        return layer(tf.RaggedTensor.from_row_splits(ids, splits, validate=False))

    def lookup(ids, splits):
        splits = splits or [None] * len(ids)
        return [one(*each) for each in zip(layers, ids, splits, strict=True)]

    variables = [layer.embeddings for layer in layers]
    return finish(workload, column, variables, lookup, in_one_call)


def build_grouped(workload, column, in_one_call=False, storage="DRAM"):
    variables = [layer.embeddings for layer in make_layers(workload, storage)]
    combiners = [workload.combiner] * len(variables)

    def lookup(ids, splits):
        return keras_sparse.ops.lookup(
            variables, ids, row_splits=splits or None, combiners=combiners
        )

    return finish(workload, column, variables, lookup, in_one_call)
