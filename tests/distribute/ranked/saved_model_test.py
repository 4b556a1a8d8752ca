"""What ranks have together is no SavedModel of one of them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from examples.dlrm.train import check_export
from keras_sparse.layers import DistributedEmbedding


@pytest.mark.parametrize("options", [{}, {"dp_input": False}, {"data_parallel_threshold": 10**6}])
def test_tables_over_ranks_are_refused_and_whole_ones_exported(options, folder):
    ids = [keras.Input((2,), dtype="int64") for _ in range(2)]
    layers = [keras_sparse.layers.Embedding(9, 4, "sum", seed=i) for i in range(2)]
    layer = DistributedEmbedding(layers, **options)
    own = [ids[i] for i in layer.own_inputs]
    model = keras.Model(own, keras.layers.Concatenate()(layer(own)))
    path = folder / f"rank{ksd.rank()}"
    if ksd.size() > 1 and "data_parallel_threshold" not in options:
        with pytest.raises(NotImplementedError, match="must be written by one process"):
            model.export(path, verbose=False)
        return
    model.export(path, verbose=False)
    request = [tf.constant(np.random.default_rng(0).integers(0, 9, (4, 2))) for _ in own]
    loaded = tf.saved_model.load(str(path))
    np.testing.assert_allclose(loaded.serve(request), model(request), rtol=1e-6)


def test_the_example_says_so_before_it_trains():
    check_export(None)
    if ksd.size() == 1:
        check_export("served")
        return
    with pytest.raises(ValueError, match=f"one process.* Received: .* on {ksd.size()} ranks"):
        check_export("served")
