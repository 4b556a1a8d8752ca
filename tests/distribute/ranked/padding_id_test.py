import functools

import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.layers import DistributedEmbedding

ROWS = 30


@pytest.mark.parametrize("combiner", [None, "mean"])
@pytest.mark.parametrize("threshold", [None, "column_slice_threshold", "row_slice_threshold"])
def test_padding_is_nothing_on_any_rank(threshold, combiner):
    options = [(ROWS, 8), (None, 4)]
    make = functools.partial(keras_sparse.layers.Embedding, combiner=combiner, padding_id=-1)
    ids = np.random.default_rng(ksd.rank()).integers(-1, ROWS, (6, 3))
    ids[0] = -1
    layer = DistributedEmbedding(
        [make(*each, seed=i) for i, each in enumerate(options)],
        **({threshold: 60} if threshold else {}),
    )
    outputs = layer([ids, ids])
    for i, (each, found) in enumerate(zip(options, outputs, strict=True)):
        np.testing.assert_allclose(found, make(*each, seed=i)(ids), rtol=1e-6)
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.SGD(0.1))
    with tf.GradientTape() as tape:
        loss = tf.add_n([tf.reduce_sum(each) for each in layer([ids, ids])])
    optimizer.apply(tape.gradient(loss, layer.trainable_variables), layer.trainable_variables)
    keys = {key for table in layer.tables for keys, _ in table.export() for key in keys}
    assert keys <= set(range(ROWS))
    for table in layer.templates.names:
        assert layer.contains([-1, 3], table=table)[0] == np.False_
        found = layer.find([3, -1], table=table)
        assert not found.exist[1]
        assert not found.rows[1].any()
        with pytest.raises(ValueError, match="must not have the layer's padding_id=-1"):
            layer.assign([3, -1], np.zeros((2, found.rows.shape[1])), table=table)
    if ksd.size() > 1:
        with pytest.raises(ValueError, match="on all ranks with the same `keys`"):
            layer.find([-1] * (1 + (ksd.rank() == 0)), table=layer.templates.names[1])
