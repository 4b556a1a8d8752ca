import numpy as np
import pytest

from keras_sparse import EmbeddingVariable
from keras_sparse.optimizers import Adagrad
from keras_sparse.optimizers import RowWiseAdagrad
from optimizer_cases import slices


def test_adds_the_mean_of_the_squares_to_one_accumulator():
    table = EmbeddingVariable(2, 2, initializer="zeros")
    optimizer = RowWiseAdagrad(1.0, initial_accumulator_value=3.0, epsilon=0.5)
    # {3, 4} in sum: (9 + 16) / 2 + 3 + 0.5 = 16
    gradient = slices([1, 1], np.float32([[1, 4], [2, 0]]))
    optimizer.apply([gradient], [table])
    ((_, records),) = table.export()
    np.testing.assert_allclose(records, [[0, 0, 3], [-0.75, -1, 15.5]], rtol=1e-6)


@pytest.mark.parametrize("dim", [1, 3, 8, 64, 100])
def test_keeps_one_number_beside_a_row(dim):
    tables = [EmbeddingVariable(100, dim) for _ in range(3)]
    RowWiseAdagrad(0.1).build([tables[0]])
    Adagrad(0.1).build([tables[1]])
    assert tables[0].slot_names == ("row_accumulator",)
    assert tables[0].record_floats == dim + 1
    sizes = [table.stats()["bytes"] for table in tables]
    assert sizes[2] <= sizes[0] <= sizes[1]
