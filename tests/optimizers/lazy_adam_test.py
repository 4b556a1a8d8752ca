import numpy as np

from keras_sparse import EmbeddingVariable
from keras_sparse.optimizers import LazyAdam
from optimizer_cases import slices


def test_first_move_of_a_row_is_the_learning_rate():
    table = EmbeddingVariable(3, 1, initializer="zeros")
    LazyAdam(0.25).apply([slices([0, 2, 2], np.float32([[-8.0], [0.5], [1.5]]))], [table])
    np.testing.assert_allclose(table.numpy(), [[0.25], [0], [-0.25]], rtol=1e-5)


def test_moments_of_rows_outside_the_batch_stay():
    table, optimizer = EmbeddingVariable(3, 1, initializer="zeros"), LazyAdam(0.25)
    optimizer.apply([slices([0], np.float32([[2.0]]))], [table])
    ((_, before),) = table.export()
    np.testing.assert_allclose(before[0, 1:], [2 * 0.1, 4 * 0.001], rtol=1e-6)
    optimizer.apply([slices([1], np.float32([[1.0]]))], [table])
    ((_, after),) = table.export()
    np.testing.assert_array_equal(after[[0, 2]], before[[0, 2]])


def test_corrects_bias_by_the_global_step():
    table, optimizer = EmbeddingVariable(3, 1, initializer="zeros"), LazyAdam(0.25)
    optimizer.apply([slices([0], np.float32([[1.0]]))], [table])
    optimizer.apply([slices([1], np.float32([[1.0]]))], [table])
    alpha = 0.25 * np.sqrt(1 - 0.999**2) / (1 - 0.9**2)
    np.testing.assert_allclose(table.numpy()[1], -alpha * 0.1 / np.sqrt(0.001), rtol=1e-4)
