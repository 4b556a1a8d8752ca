import numpy as np

from keras_sparse import EmbeddingVariable
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
