import keras
import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.optimizers import Adagrad
from keras_sparse.optimizers import Adam
from keras_sparse.optimizers import RowWiseAdagrad
from keras_sparse.optimizers import SGD
from ranked_training import ColumnPart
from ranked_training import make_data
from ranked_training import make_model
from ranked_training import mine
from ranked_training import NUM_STEPS
from ranked_training import RowPart

MEAN_RANK = (ksd.size() - 1) / 2


def trained(optimizer):
    model = make_model()
    model.compile(optimizer, loss="mse", run_eagerly=True)
    train(model)
    return model


def train(model):
    for batch in zip(*(np.split(mine(each), NUM_STEPS) for each in make_data()), strict=True):
        model.train_on_batch(*batch)


def test_is_what_its_config_says():
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    optimizer = ksd.DistributedOptimizer(Adagrad(schedule, clipnorm=2.0), name="both")
    config = keras.saving.serialize_keras_object(optimizer)
    copy = keras.saving.deserialize_keras_object(config)
    assert type(copy) is ksd.DistributedOptimizer
    assert type(copy.inner_optimizer) is Adagrad
    assert copy.get_config() == optimizer.get_config()


@pytest.mark.parametrize("given", ["adam", {"class_name": "Adam", "config": {"name": "mine"}}])
def test_takes_names_and_configs(given):
    assert type(ksd.DistributedOptimizer(given).inner_optimizer) is keras.optimizers.Adam


def test_refuses_what_is_to_go_around_it():
    scaled = keras.optimizers.LossScaleOptimizer(SGD())
    with pytest.raises(ValueError, match=r"LossScaleOptimizer\(DistributedOptimizer\(...\)\)"):
        ksd.DistributedOptimizer(scaled)
    with pytest.raises(ValueError, match="must not average gradients over ranks itself"):
        ksd.DistributedOptimizer(ksd.DistributedOptimizer(SGD()))
    with pytest.raises(ValueError, match="must be an optimizer"):
        ksd.DistributedOptimizer(None)


def test_some_variables_may_have_no_gradient():
    table, kernel = keras_sparse.EmbeddingVariable(4, 1), keras.Variable([0.0])
    optimizer = ksd.DistributedOptimizer(SGD(1.0))
    optimizer.build([table, kernel])
    before = table.numpy()
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        optimizer.apply([None, tf.constant([float(ksd.rank())])])
    np.testing.assert_array_equal(table.numpy(), before)
    np.testing.assert_allclose(kernel.numpy(), [-MEAN_RANK])


def test_gradients_are_one_a_variable():
    kernel = keras.Variable([0.0])
    optimizer = ksd.DistributedOptimizer(SGD(1.0))
    optimizer.build([kernel, keras_sparse.EmbeddingVariable(4, 1)])
    with pytest.raises(ValueError, match=r"one gradient a variable. Received: 1 gradients for 2"):
        optimizer.apply([tf.constant([1.0])])


def test_a_saved_model_goes_on(tmp_path):
    model = trained(ksd.DistributedOptimizer(Adam(0.1)))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert type(loaded.optimizer) is ksd.DistributedOptimizer
    for each in (model, loaded):
        train(each)
    check_same(model, loaded)


@pytest.mark.parametrize("wraps", [(True, False), (False, True)], ids=["from", "to"])
@pytest.mark.parametrize("way", ["weights", "checkpoint"])
def test_weights_are_those_of_the_optimizer_alone(way, wraps, tmp_path, folder):
    optimizers = [
        ksd.DistributedOptimizer(Adagrad(0.1)) if wrap else Adagrad(0.1) for wrap in wraps
    ]
    saved, loaded = trained(optimizers[0]), make_model()
    loaded.compile(optimizers[1], loss="mse")
    loaded.optimizer.build(loaded.trainable_variables)
    if way == "weights":
        saved.save_weights(tmp_path / "model.weights.h5")
        loaded.load_weights(tmp_path / "model.weights.h5")
    else:
        keras_sparse.saving.save_checkpoint(saved, folder / "checkpoint")
        keras_sparse.saving.load_checkpoint(loaded, folder / "checkpoint")
        if ksd.rank() > 0 and not wraps[0]:
            return  # a table that each rank has trained by itself is saved as rank 0 has it
    check_same(saved, loaded)


def check_same(left, right):
    for ours, theirs in zip(left.trainable_variables, right.trainable_variables, strict=True):
        if isinstance(ours, keras_sparse.EmbeddingVariable):
            checks.assert_same_tables(ours, theirs)
        else:
            np.testing.assert_array_equal(ours, theirs)
    pairs = zip(left.optimizer.variables, right.optimizer.variables, strict=True)
    for ours, theirs in pairs:
        np.testing.assert_array_equal(ours, theirs)


def test_the_rate_can_be_set_and_weights_kept_from_decay():
    kernel = keras.Variable([1.0])
    optimizer = ksd.DistributedOptimizer(SGD(0.5, weight_decay=0.1))
    optimizer.exclude_from_weight_decay(var_list=[kernel])
    optimizer.learning_rate = 1.0
    optimizer.apply([tf.constant([2.0])], [kernel])
    assert kernel.numpy() == [-1.0]
    assert int(optimizer.iterations) == 1


def test_averages_of_variables_are_the_inner_optimizers():
    kernel = keras.Variable([0.0])
    optimizer = ksd.DistributedOptimizer(keras.optimizers.SGD(1.0, use_ema=True, ema_momentum=0.5))
    for _ in range(2):
        optimizer.apply([tf.constant([1.0])], [kernel])
    optimizer.finalize_variable_values([kernel])
    np.testing.assert_allclose(kernel.numpy(), [-1.5])


@pytest.mark.skipif(ksd.size() == 1, reason="one rank agrees with itself, and has whole rows")
def test_ranks_must_train_the_same_variables():
    kernel = keras.Variable(np.zeros(2 if ksd.rank() == 1 else 3, "float32"))
    optimizer = ksd.DistributedOptimizer(SGD(1.0))
    said = (
        rf"\[rank {ksd.rank()} of {ksd.size()}\] All ranks must train the same variables.*as "
        r"variable 0 .* variable \(3,\) float32 on rank 0 and variable \(2,\) float32 on rank 1"
    )
    with pytest.raises(ValueError, match=said):
        optimizer.apply([tf.zeros(kernel.shape)], [kernel])


@pytest.mark.skipif(ksd.size() == 1, reason="one rank agrees with itself, and has whole rows")
def test_columns_of_a_row_on_several_ranks_need_a_rule_of_columns():
    rows = np.ones((4, 12), "float32")
    with pytest.raises(NotImplementedError, match=r"one number for a whole row.*table 'users'"):
        RowWiseAdagrad().build([ColumnPart("users", rows).variable])
    RowWiseAdagrad().build([RowPart("users", rows).variable])
    Adagrad().build([ColumnPart("users", rows).variable])
