"""keras_sparse: one lookup of all tables, and one native op that updates them."""

import keras_sparse
from benchmarks.peers.keras_layers import bind
from benchmarks.peers.keras_layers import make_optimizer
from benchmarks.peers.keras_layers import make_step


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


def build(workload, column, in_one_call=False, storage="DRAM"):
    variables = [layer.embeddings for layer in make_layers(workload, storage)]
    combiners = [workload.combiner] * len(variables)

    def lookup(ids, splits):
        return keras_sparse.ops.lookup(
            variables, ids, row_splits=splits or None, combiners=combiners
        )

    optimizer = make_optimizer(column, keras_sparse)
    optimizer.build(variables)
    step = make_step(lookup, optimizer, variables)
    return bind(workload, column, lookup, step, in_one_call=in_one_call)
