"""The DLRM of W4 in PyTorch, with torch's sparse tables or FBGEMM's."""

import itertools

import torch

from benchmarks.peers import as_written_torch
from benchmarks.workloads import dense_features_and_labels

DENSE_OPTIMIZERS = {
    "adagrad": lambda parameters: torch.optim.Adagrad(parameters, 0.01),
    "row_wise_adagrad": lambda parameters: torch.optim.Adagrad(parameters, 0.01),
    "lazy_adam": lambda parameters: torch.optim.Adam(parameters, 0.001),
}


def mlp(*sizes):
    """Linear layers with ReLU between them."""
    layers = []
    for width_in, width_out in itertools.pairwise(sizes):
        layers += [torch.nn.Linear(width_in, width_out), torch.nn.ReLU()]
    return layers


class DensePart(torch.nn.Module):
    """Bottom MLP, dot interaction, top MLP, binary cross-entropy."""

    def __init__(self, num_tables):
        super().__init__()
        self.bottom = torch.nn.Sequential(*mlp(13, 64, 32))
        left, right = torch.tril_indices(num_tables + 1, num_tables + 1, -1)
        self.register_buffer("pairs", left * (num_tables + 1) + right)
        self.top = torch.nn.Sequential(*mlp(32 + len(left), 128, 64, 1)[:-1])

    def forward(self, features, rows, labels):
        """`rows` are (batch_size, num_tables, output_dim)."""
        bottom = self.bottom(features)
        vectors = torch.cat([bottom[:, None], rows], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
        top = torch.cat([bottom, products.index_select(1, self.pairs)], dim=1)
        logits = self.top(top)[:, 0]
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)


def dense_part(workload, column):
    dense = DensePart(workload.num_tables)
    optimizer = DENSE_OPTIMIZERS[column](dense.parameters())
    inputs = [torch.from_numpy(each) for each in dense_features_and_labels(workload)]
    return dense, optimizer, *inputs


def make_step(dense, lookup, optimizers, features, labels):
    """Returns the function of a batch's number that is timed; `lookup` gives the rows of one.

    What else updates in the backward has no optimizer here.
    """

    def step(i):
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        dense(features, lookup(i), labels).backward()
        for optimizer in optimizers:
            optimizer.step()

    return step


def build(workload, column):
    """One table of all rows."""
    dense, dense_optimizer, *inputs = dense_part(workload, column)
    joined, optimizer = as_written_torch.torch_lookup(workload, column)

    def lookup(i):
        return joined(i).view(-1, workload.num_tables, workload.output_dim)

    return make_step(dense, lookup, [optimizer, dense_optimizer], *inputs)


def build_fbgemm(workload, column):
    dense, dense_optimizer, *inputs = dense_part(workload, column)
    joined = as_written_torch.fbgemm_lookup(workload, column)
    shape = (-1, workload.num_tables, workload.output_dim)
    return make_step(dense, lambda i: joined(i).view(shape), [dense_optimizer], *inputs)
