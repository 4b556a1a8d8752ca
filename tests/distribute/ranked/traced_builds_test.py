import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding

IDS = np.arange(20).reshape(10, 2) + 3 * ksd.rank()


class Traced(keras.Model):
    def __init__(self, **options):
        super().__init__()
        ones = {"embeddings_initializer": "ones"}
        tables = [Embedding(40, 4, "sum", **ones), Embedding(None, 4, "sum", **ones)]
        self.tables = DistributedEmbedding(tables, **options)

    @tf.function
    def call(self, ids):
        return tf.concat(self.tables([ids, ids]), axis=-1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"row_slice_threshold": 1},
        {"data_parallel_threshold": 10**6},
        {"strategy": "memory_balanced", "column_slice_threshold": 10**6},
    ],
)
def test_a_call_traced_before_its_tables_exist_reads_and_trains_them(options):
    model = Traced(**options)
    for _ in range(2):
        np.testing.assert_array_equal(model(IDS), np.full((10, 8), 2.0))
    model.compile(
        ksd.DistributedOptimizer(keras_sparse.optimizers.SGD(0.1)),
        lambda _, rows: tf.reduce_sum(rows, axis=-1),
    )
    model.train_on_batch(IDS, np.zeros(10))
    rows = tf.concat(model.tables([tf.constant(IDS)] * 2), axis=-1)
    assert np.all(rows < 2.0)
    np.testing.assert_array_equal(model(IDS), rows)
