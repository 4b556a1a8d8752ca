import numpy as np
import tensorflow as tf

from keras_sparse import EmbeddingVariable
from keras_sparse.optimizers import Adagrad


def test_squares_the_sum_of_a_rows_gradients():
    table = EmbeddingVariable(2, 1, initializer="zeros")
    gradient = tf.IndexedSlices([[1.0], [2.0]], [1, 1], [2, 1])
    Adagrad(1.0, initial_accumulator_value=16.0, epsilon=0.0).apply([gradient], [table])
    ((_, records),) = table.export()
    np.testing.assert_allclose(records, [[0, 16], [-3 / 5, 16 + 9]], rtol=1e-6)


def test_adds_epsilon_under_the_root():
    table = EmbeddingVariable(2, 1, initializer="zeros")
    gradient = tf.IndexedSlices([[3.0]], [0], [2, 1])
    Adagrad(1.0, initial_accumulator_value=0.0, epsilon=7.0).apply([gradient], [table])
    np.testing.assert_allclose(table.numpy(), [[-3 / 4], [0]], rtol=1e-6)
