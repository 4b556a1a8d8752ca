"""FBGEMM's table-batched embeddings on CPU: all tables in one op, the optimizer in its backward.

Its output is one (batch_size, tables * output_dim) matrix; so is the gradient it is given here.
Bounds checks are off. On CPU it has no Adam. Row-wise Adagrad keeps one number a row, where the
others keep one a value.
"""

import numpy as np
import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import BoundsCheckMode
from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation
from fbgemm_gpu.split_table_batched_embeddings_ops_common import PoolingMode
from fbgemm_gpu.split_table_batched_embeddings_ops_training import ComputeDevice
from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    SplitTableBatchedEmbeddingBagsCodegen,
)

OPTIMIZERS = {
    "forward": EmbOptimType.EXACT_SGD,
    "sgd": EmbOptimType.EXACT_SGD,
    "adagrad": EmbOptimType.EXACT_ADAGRAD,
    "row_wise_adagrad": EmbOptimType.EXACT_ROWWISE_ADAGRAD,
}


def make_tables(workload, column):
    one_id_each = workload.combiner is None and workload.hotness == 1
    size = (workload.input_dim, workload.output_dim, EmbeddingLocation.HOST, ComputeDevice.CPU)
    tables = SplitTableBatchedEmbeddingBagsCodegen(
        [size] * workload.num_tables,
        optimizer=OPTIMIZERS[column],
        learning_rate=0.01,
        eps=1e-7,
        pooling_mode=PoolingMode.SUM if workload.combiner or one_id_each else PoolingMode.NONE,
        bounds_check_mode=BoundsCheckMode.NONE,
    )
    tables.init_embedding_weights_uniform(-0.05, 0.05)
    return tables


def as_tensors(workload, i):
    """All ids, one table after another, and the borders of every bag."""
    ids = workload.ids[i]
    num_bags = workload.batch_size if workload.combiner else len(ids[0])
    splits = workload.row_splits[i] if workload.row_splits else [np.arange(num_bags + 1)] * len(ids)
    starts = np.cumsum([0] + [len(row) for row in ids])
    offsets = [start + row[:-1] for start, row in zip(starts, splits, strict=False)]
    offsets = np.concatenate([*offsets, starts[-1:]])
    return torch.from_numpy(np.concatenate(ids)), torch.from_numpy(offsets.astype(np.int64))


def build(workload, column):
    tables = make_tables(workload, column)
    batches = [as_tensors(workload, i) for i in range(len(workload.ids))]
    grads = torch.from_numpy(np.concatenate(workload.output_grads(), axis=1))

    def lookup(i):
        ids, offsets = batches[i]
        return tables(ids % workload.input_dim if workload.dynamic else ids, offsets)

    def forward(i):
        with torch.no_grad():
            return lookup(i)

    def step(i):
        lookup(i).backward(grads)

    return forward if column == "forward" else step
