import numpy as np
import pytest

import checks
from keras_sparse import EmbeddingVariable
from keras_sparse.optimizers import Adagrad
from keras_sparse.optimizers import RowWiseAdagrad
from keras_sparse.saving import load_table
from keras_sparse.saving import save_table
from optimizer_cases import KEYS
from optimizer_cases import make_table
from optimizer_cases import random_rows
from optimizer_cases import slices


def test_adds_the_mean_of_the_squares_to_one_accumulator():
    table = EmbeddingVariable(2, 2, initializer="zeros")
    optimizer = RowWiseAdagrad(1.0, initial_accumulator_value=3.0, epsilon=0.5)
    # {3, 4} in sum: (9 + 16) / 2 + 3 + 0.5 = 16
    gradient = slices([1, 1], np.float32([[1, 4], [2, 0]]))
    optimizer.apply([gradient], [table])
    ((_, records),) = table.export()
    np.testing.assert_allclose(records, [[0, 0, 3], [-0.75, -1, 15.5]], rtol=1e-6)


@pytest.mark.parametrize("keys", [np.arange(3), KEYS[:3]], ids=["static", "dynamic"])
@pytest.mark.parametrize("dim", [1, 3, 8, 64, 100])
def test_is_the_row_wise_adagrad_of_fbgemm(dim, keys):
    """Its sum of means of squares, row by row in float64, with `epsilon` under the root."""
    rate, first, epsilon = 0.25, 0.5, 0.125
    table = make_table(keys, random_rows(3, dim))
    optimizer = RowWiseAdagrad(rate, initial_accumulator_value=first, epsilon=epsilon)
    rows, sums = random_rows(3, dim).astype("float64"), np.full(3, first)
    rng = np.random.default_rng(dim)
    for ids in ([0, 1, 1], [1], [1, 0]):  # row 2 is never in a batch
        values = rng.normal(size=(len(ids), dim)).astype("float32")
        optimizer.apply([slices(keys[ids], values)], [table])
        for row in set(ids):
            g = sum(v.astype("float64") for i, v in zip(ids, values, strict=True) if i == row)
            sums[row] += sum(x * x for x in g) / dim
            rows[row] -= rate * g / np.sqrt(sums[row] + epsilon)
    content = checks.table_content(table)
    records = np.stack([np.frombuffer(content[int(key)], "float32") for key in keys])
    assert records.shape == (3, dim + 1)
    np.testing.assert_allclose(records[:, :dim], rows, rtol=0, atol=1e-6)
    np.testing.assert_allclose(records[:, dim], sums, rtol=1e-6)


def test_is_adagrad_on_rows_of_one_element():
    tables = [EmbeddingVariable(4, 1, seed=1) for _ in range(2)]
    for make, table in zip((RowWiseAdagrad, Adagrad), tables, strict=True):
        optimizer = make(0.1)
        rng = np.random.default_rng(0)
        for _ in range(20):
            gradient = slices(rng.integers(0, 4, 3), rng.normal(size=(3, 1)).astype("float32"))
            optimizer.apply([gradient], [table])
    np.testing.assert_allclose(tables[0].numpy(), tables[1].numpy(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("dim", [1, 3, 8, 64, 100])
def test_keeps_one_number_beside_a_row(dim):
    tables = [EmbeddingVariable(100, dim) for _ in range(3)]
    RowWiseAdagrad(0.1).build([tables[0]])
    Adagrad(0.1).build([tables[1]])
    assert tables[0].slot_names == ("row_accumulator",)
    assert tables[0].record_floats == dim + 1
    sizes = [table.stats()["bytes"] for table in tables]
    assert sizes[2] <= sizes[0] <= sizes[1]


@pytest.mark.parametrize("input_dim", [6, None])
def test_its_narrow_slot_is_saved_and_comes_back(input_dim):
    saved, loaded = (EmbeddingVariable(input_dim, 5, seed=seed) for seed in range(2))
    optimizers = [RowWiseAdagrad(0.1), RowWiseAdagrad(0.1)]
    for optimizer, table in zip(optimizers, (saved, loaded), strict=True):
        optimizer.build([table])
    gradient = slices([1, 3], np.arange(10, dtype="float32").reshape(2, 5))
    optimizers[0].apply([gradient], [saved])
    store = {}
    save_table(saved, store)
    assert store["records_000000"].shape[1] == 6
    load_table(loaded, store)
    for optimizer, table in zip(optimizers, (saved, loaded), strict=True):
        optimizer.apply([slices([3, 4], np.ones((2, 5), "float32"))], [table])
    content = []
    for table in (saved, loaded):
        ((keys, records),) = table.export()
        content.append(records[np.argsort(keys)])
    np.testing.assert_array_equal(*content)
