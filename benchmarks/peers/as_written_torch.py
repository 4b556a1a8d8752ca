"""W1 as users of torch and FBGEMM write it: a matrix of ids in, one tensor of rows out.

FBGEMM wants its ids table by table, which is timed with the rest.
"""

import torch

from benchmarks.peers import torch_bags


def fbgemm_lookup(workload, column):
    """Returns a function of a batch's number that gives all rows, `(batch_size, sum of widths)`."""
    from benchmarks.peers import fbgemm

    tables = fbgemm.make_tables(workload, column)
    batches = [torch.from_numpy(each) for each in workload.id_matrices()]
    offsets = torch.arange(workload.num_tables * workload.batch_size + 1)
    return lambda i: tables(batches[i].t().reshape(-1), offsets)  # its ids lie table by table


def torch_lookup(workload, column):
    """The same with all rows in one table, whose ids are told apart by an offset; and the table's
    optimizer.
    """
    num_rows = workload.num_tables * workload.input_dim
    table = torch.nn.Embedding(num_rows, workload.output_dim, sparse=True)
    optimizer = torch_bags.OPTIMIZERS[column]([table.weight])
    batches = [torch.from_numpy(each) for each in workload.id_matrices()]
    offsets = workload.input_dim * torch.arange(workload.num_tables)
    return lambda i: table(batches[i] + offsets).flatten(1), optimizer


def build_fbgemm(workload, column):
    lookup = fbgemm_lookup(workload, column)
    grads = torch.from_numpy(workload.joined_output_grads())

    def forward(i):
        with torch.no_grad():
            return lookup(i)

    return forward if column == "forward" else lambda i: lookup(i).backward(grads)


def build_torch(workload, column):
    lookup, optimizer = torch_lookup(workload, column)
    grads = torch.from_numpy(workload.joined_output_grads())

    def forward(i):
        with torch.inference_mode():
            return lookup(i)

    def step(i):
        optimizer.zero_grad(set_to_none=True)
        lookup(i).backward(grads)
        optimizer.step()

    return forward if column == "forward" else step
