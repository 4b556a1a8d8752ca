"""keras_sparse: one lookup of all tables, and one native op that updates them."""

import functools

import keras_sparse
from benchmarks.peers.keras_layers import bind
from benchmarks.peers.keras_layers import make_optimizer
from benchmarks.peers.keras_layers import make_step


def make_layers(workload, storage="DRAM", **dtypes):
    layers = [
        keras_sparse.layers.Embedding(
            None if workload.dynamic else workload.input_dim,
            workload.output_dim,
            combiner=workload.combiner,
            storage=keras_sparse.StorageOption(storage),
            name=f"table_{i}",
            **dtypes,
        )
        for i in range(workload.num_tables)
    ]
    for layer in layers:
        layer.build((None, None) if workload.combiner else (None,))
    return layers


def build(workload, column, in_one_call=False, storage="DRAM", **dtypes):
    variables = [layer.embeddings for layer in make_layers(workload, storage, **dtypes)]
    combiners = [workload.combiner] * len(variables)

    def lookup(ids, splits):
        return keras_sparse.ops.lookup(
            variables, ids, row_splits=splits or None, combiners=combiners
        )

    optimizer = make_optimizer(column, keras_sparse)
    optimizer.build(variables)
    step = make_step(lookup, optimizer, variables)
    return bind(workload, column, lookup, step, in_one_call=in_one_call)


# The same with rows, or rows and slots, in 16 bits.
build_bfloat16_rows = functools.partial(build, row_dtype="bfloat16")
build_bfloat16 = functools.partial(build, row_dtype="bfloat16", slot_dtype="bfloat16")
build_nearest = functools.partial(build, row_dtype="bfloat16", rounding="nearest")
build_float16 = functools.partial(build, row_dtype="float16", slot_dtype="bfloat16")
