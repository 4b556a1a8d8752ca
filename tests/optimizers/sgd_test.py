import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_sparse import EmbeddingVariable
from keras_sparse.optimizers import SGD


def test_takes_the_rate_times_the_sum_of_a_rows_gradients():
    table = EmbeddingVariable(3, 2, initializer="ones")
    gradient = tf.IndexedSlices([[1.0, 2.0], [3.0, 4.0], [10.0, 10.0]], [1, 1, 2], [3, 2])
    SGD(0.5).apply([gradient], [table])
    np.testing.assert_array_equal(table.numpy(), [[1, 1], [-1, -2], [-4, -4]])


def test_refuses_momentum_on_embedding_variables():
    with pytest.raises(NotImplementedError, match=r"`momentum` is not supported.*SGD.momentum=0.9"):
        SGD(0.1, momentum=0.9, nesterov=True).build([EmbeddingVariable(3, 2)])


def test_has_momentum_for_other_variables():
    ours, reference = SGD(0.1, momentum=0.9), keras.optimizers.SGD(0.1, momentum=0.9)
    kernels = [keras.Variable([1.0, 2.0]) for _ in range(2)]
    for _ in range(3):
        ours.apply([tf.constant([1.0, -1.0])], kernels[:1])
        reference.apply([tf.constant([1.0, -1.0])], kernels[1:])
    np.testing.assert_array_equal(kernels[0].numpy(), kernels[1].numpy())
