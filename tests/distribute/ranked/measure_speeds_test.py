import keras
import numpy as np
import pytest

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.distribute.ranks import collectives


@pytest.fixture(scope="module", name="measured")
def measured_model():
    return ksd.CostModel.measure(batch_size=64)


def test_finds_numbers_that_a_machine_can_have(measured):
    assert 1e7 < measured.memory_bandwidth < 1e13
    assert 1e5 < measured.network_bandwidth < 1e13
    assert 0 <= measured.table_seconds < 0.1
    assert measured.batch_size == 64
    is_default = measured.network_bandwidth == ksd.CostModel.network_bandwidth
    assert is_default == (ksd.size() == 1)


def test_all_ranks_have_the_same_numbers(measured):
    first, *others = collectives.gather_objects(measured.get_config(), "measured")
    assert all(other == first for other in others)


def test_a_layer_plans_with_them(measured):
    layer = keras_sparse.layers.DistributedEmbedding(
        [keras.layers.Embedding(1000, 8), keras.layers.Embedding(10, 4)],
        strategy="auto",
        cost_model=measured,
    )
    ids = np.array([3, 7])
    assert [rows.shape for rows in layer([ids, ids])] == [(2, 8), (2, 4)]
    expected = measured.rank_seconds(layer.plan.tables, layer.plan.placements, ksd.size())
    np.testing.assert_allclose(layer.plan.rank_seconds, expected)


def test_refuses_a_batch_of_nothing():
    with pytest.raises(ValueError, match="`batch_size` must be"):
        ksd.CostModel.measure(batch_size=0)
