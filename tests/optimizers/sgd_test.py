import numpy as np
import pytest
import tensorflow as tf

from keras_sparse import EmbeddingVariable
from keras_sparse.optimizers import SGD
from optimizer_cases import slices


def train(optimizer, table, batches):
    """Each batch is a dict: the gradient of each row in it, for all its elements."""
    for batch in batches:
        values = np.array(list(batch.values()), "float32").reshape(-1, 1)
        optimizer.apply([slices(list(batch), values)], [table])


def test_takes_the_rate_times_the_sum_of_a_rows_gradients():
    table = EmbeddingVariable(3, 2, initializer="ones")
    gradient = tf.IndexedSlices([[1.0, 2.0], [3.0, 4.0], [10.0, 10.0]], [1, 1, 2], [3, 2])
    SGD(0.5).apply([gradient], [table])
    np.testing.assert_array_equal(table.numpy(), [[1, 1], [-1, -2], [-4, -4]])


@pytest.mark.parametrize(
    ("nesterov", "rows"), [(False, [-8, -12, -14, -15]), (True, [-12, -14, -15, -15.5])]
)
def test_velocity_keeps_moving_a_row_without_a_gradient(nesterov, rows):
    table = EmbeddingVariable(2, 1, initializer="zeros")
    optimizer = SGD(0.5, momentum=0.5, nesterov=nesterov)
    train(optimizer, table, [{0: 16}])
    for expected in rows:
        np.testing.assert_array_equal(table.numpy(), [[expected], [0]])
        train(optimizer, table, [{}])


def test_a_row_makes_up_for_many_steps_at_once():
    table = EmbeddingVariable(2, 1, initializer="zeros")
    optimizer = SGD(0.5, momentum=0.5)
    train(optimizer, table, [{0: 16}, {1: 4}, {1: 0}, {0: 0}])
    np.testing.assert_array_equal(table.numpy(), [[-15], [-3.5]])
    ((_, records),) = table.export()
    np.testing.assert_array_equal(records[:, 1], [-1, -0.5])


def test_velocity_that_does_not_decay_moves_a_row_for_ever():
    table = EmbeddingVariable(1, 1, initializer="zeros")
    optimizer = SGD(0.5, momentum=1.0)
    train(optimizer, table, [{0: 1}])

    @tf.function
    def rest(steps):
        for _ in tf.range(steps):
            train(optimizer, table, [{}])

    rest(2999)
    np.testing.assert_array_equal(table.numpy(), [[-1500]])
