"""W1 as users of torch and FBGEMM write it: a matrix of ids in, one tensor of rows out.

FBGEMM wants its ids table by table, which is timed with the rest.
"""

import torch

from benchmarks.peers import fbgemm
from benchmarks.peers import torch_bags


def build_fbgemm(workload, column):
    tables = fbgemm.make_tables(workload, column)
    batches = [torch.from_numpy(each) for each in workload.id_matrices()]
    grads = torch.from_numpy(workload.joined_output_grads())
    offsets = torch.arange(workload.num_tables * workload.batch_size + 1)

    def lookup(i):
        return tables(batches[i].t().reshape(-1), offsets)  # its ids lie table by table

    def forward(i):
        with torch.no_grad():
            return lookup(i)

    return forward if column == "forward" else lambda i: lookup(i).backward(grads)


def build_torch(workload, column):
    """All rows in one table, whose ids are told apart by an offset: its output is joined as is."""
    num_rows = workload.num_tables * workload.input_dim
    table = torch.nn.Embedding(num_rows, workload.output_dim, sparse=True)
    optimizer = torch_bags.OPTIMIZERS[column]([table.weight])
    batches = [torch.from_numpy(each) for each in workload.id_matrices()]
    grads = torch.from_numpy(workload.joined_output_grads())
    offsets = workload.input_dim * torch.arange(workload.num_tables)

    def lookup(i):
        return table(batches[i] + offsets).flatten(1)

    def forward(i):
        with torch.inference_mode():
            return lookup(i)

    def step(i):
        optimizer.zero_grad(set_to_none=True)
        lookup(i).backward(grads)
        optimizer.step()

    return forward if column == "forward" else step
