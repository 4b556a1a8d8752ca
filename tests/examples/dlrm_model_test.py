import keras
import numpy as np
import pytest

import keras_sparse
from examples.dlrm.model import DotInteraction
from examples.dlrm.model import make_model
from examples.dlrm.schedule import WarmupThenDecay
from examples.dlrm.tiers import Tiers


def test_each_pair_is_multiplied_once_and_the_first_vector_stays():
    vectors = np.array([[[1.0, 0.0], [2.0, 3.0], [4.0, 5.0]]], np.float32)
    layer = DotInteraction()
    np.testing.assert_array_equal(layer(vectors), [[2, 4, 2 * 4 + 3 * 5, 1, 0]])
    assert layer.compute_output_shape((None, 27, 128)) == (None, 351 + 128)


def test_the_model_is_that_of_mlperf():
    model = make_model([10] * 26)
    dense = [layer for layer in model.layers if isinstance(layer, keras.layers.Dense)]
    assert sum(layer.count_params() for layer in dense) == 2_368_897
    assert model.get_layer("tables").count_params() == 26 * 10 * 128


def test_rows_begin_within_the_bounds_of_mlperf():
    model = make_model([4, *[100] * 25], embedding_dim=8, bottom=(), top=())
    first, second, *_ = model.get_layer("tables").get_weights()
    assert 0.4 < np.abs(first).max() <= 1 / np.sqrt(4)
    assert 0.09 < np.abs(second).max() <= 1 / np.sqrt(100)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        *((0, 0), (2000, 6), (8000, 24), (47_999, 24), (48_000, 24)),
        *((60_000, 24 / 4), (72_000, 0), (90_000, 0)),
    ],
)
def test_the_learning_rate_is_that_of_mlperf(step, expected):
    schedule = WarmupThenDecay(24.0, 8000, 48_000, 24_000)
    assert float(schedule(step)) == pytest.approx(expected, rel=1e-6)
    same = WarmupThenDecay.in_proportion(24.0, 64_000)
    assert same.get_config() == schedule.get_config()
    assert float(WarmupThenDecay.from_config(same.get_config())(step)) == float(same(step))


def test_a_schedule_may_have_no_warm_up_and_no_decay_before_its_end():
    assert float(WarmupThenDecay(2.0, 0, 10, 5)(0)) == 2
    with pytest.raises(ValueError, match="the decay must begin after the warm-up"):
        WarmupThenDecay(1.0, 10, 5, 5)


def test_large_tables_get_their_part_of_the_first_tier(tmp_path):
    tiers = Tiers("DRAM_SSDHASH", str(tmp_path), "100MB", [9000, 1000, 5], row_bytes=64)
    assert tiers.of(5) is None
    large, small = tiers.of(9000), tiers.of(1000)
    assert isinstance(large, keras_sparse.StorageOption)
    assert large.storage_size[0] == pytest.approx(90e6, rel=1e-3)
    assert small.storage_size[0] == pytest.approx(10e6, rel=1e-3)
    assert large.storage_size[1] - small.storage_size[1] == 8000 * (64 + 40) * 6 // 5
    assert Tiers("DRAM", None, "4GiB", [9000], row_bytes=64).of(9000) is None
