import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding

IDS = np.arange(24).reshape(-1, 4)


def make_model():
    ids = keras.Input((4,), dtype="int64")
    rows = DistributedEmbedding([Embedding(30, 2, "sum")])([ids])[0]
    model = keras.Model(ids, rows)
    model(IDS)
    return model


@pytest.mark.skipif(ksd.size() == 1, reason="one rank has nothing to exchange")
def test_lookups_that_exchange_ids_are_refused():
    batches = tf.data.Dataset.from_tensor_slices(IDS).batch(2)
    with pytest.raises(NotImplementedError, match=r"`prefetch_lookups` must be used on one rank"):
        keras_sparse.data.prefetch_lookups(batches, make_model())
