"""torch.nn.EmbeddingBag with sparse gradients and torch's optimizers for those.

Rows that are not pooled come from torch.nn.Embedding. Keys of a dynamic table are hashed into a
static one by their remainder.
"""

import functools

import torch

OPTIMIZERS = {
    "forward": lambda parameters: torch.optim.SGD(parameters, 0.01),
    "sgd": lambda parameters: torch.optim.SGD(parameters, 0.01),
    "adagrad": lambda parameters: torch.optim.Adagrad(parameters, 0.01, eps=1e-7),
    "lazy_adam": lambda parameters: torch.optim.SparseAdam(parameters, 0.001, eps=1e-7),
}


def make_tables(workload):
    """One id a bag and no bag at all are the same rows: the faster Embedding serves both."""
    sizes = (workload.input_dim, workload.output_dim)
    if workload.combiner is None:
        make = functools.partial(torch.nn.Embedding, sparse=True)
    else:
        make = functools.partial(
            torch.nn.EmbeddingBag, mode="sum", sparse=True, include_last_offset=True
        )
    return [make(*sizes) for _ in range(workload.num_tables)]


def as_tensors(workload):
    """For each batch the arguments of each table."""
    batches = []
    for i, ids in enumerate(workload.ids):
        splits = workload.row_splits[i] if workload.row_splits else [None] * len(ids)
        pairs = zip(ids, splits, strict=True)
        given = [[array for array in pair if array is not None] for pair in pairs]
        batches.append([[torch.from_numpy(each) for each in pair] for pair in given])
    return batches


def build(workload, column):
    tables = make_tables(workload)
    batches = as_tensors(workload)
    grads = [torch.from_numpy(grad) for grad in workload.output_grads()]
    optimizer = OPTIMIZERS[column]([table.weight for table in tables])

    def lookup(i):
        outputs = []
        for table, (ids, *splits) in zip(tables, batches[i], strict=True):
            ids = ids % workload.input_dim if workload.dynamic else ids
            outputs.append(table(ids, *splits))
        return outputs

    def forward(i):
        with torch.inference_mode():
            return lookup(i)

    def step(i):
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(lookup(i), grads)
        optimizer.step()

    return forward if column == "forward" else step
