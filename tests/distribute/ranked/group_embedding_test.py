"""Group embeddings in both modes: the training of one process with the whole batch."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.layers import Embedding
from keras_sparse.layers import group_embedding_scope
from keras_sparse.layers import GroupEmbedding

TABLES = [(11, 4, "sum"), (7, 1, "mean"), (30, 8, None), (7, 3, "sqrtn")]
BATCH, STEPS = 12, 6  # a batch of all ranks


def make_tables():
    return [Embedding(*table, seed=i, name=f"table_{i}") for i, table in enumerate(TABLES)]


def look_up_alone(inputs, weights):
    tables = make_tables()
    return [
        table(ids) if weight is None else table(ids, weights=weight)
        for table, ids, weight in zip(tables, inputs, weights, strict=True)
    ]


def look_up_in_scope(mode):
    def look_up(inputs, weights):
        with group_embedding_scope(mode=mode):
            return look_up_alone(inputs, weights)

    return look_up


def make_model(look_up, optimizer):
    inputs = [keras.Input((None,), dtype="int64", ragged=i == 1) for i in range(len(TABLES))]
    counts = keras.Input((None,))
    outputs = look_up(inputs, [counts, None, None, None])
    outputs[2] = keras.layers.GlobalAveragePooling1D()(outputs[2])
    outputs = keras.layers.Concatenate()(outputs)
    outputs = keras.layers.Dense(1, kernel_initializer="ones")(outputs)
    model = keras.Model([*inputs, counts], outputs)
    model.compile(optimizer, loss="mse")
    return model


def batches(part):
    """The batches, of whose samples a rank has this part."""
    random = np.random.default_rng(2)
    for _ in range(STEPS):
        ids = [random.integers(0, rows, (BATCH, 4)) for rows, _, _ in TABLES]
        lengths = random.integers(0, 5, BATCH)
        counts = random.normal(size=(BATCH, 4)).astype(np.float32)
        labels = random.normal(size=(BATCH, 1))
        ids = [each[part] for each in ids]
        ids[1] = tf.RaggedTensor.from_tensor(ids[1], lengths[part])
        yield [*ids, counts[part]], labels[part]


@pytest.mark.parametrize("in_scope", [False, True])
@pytest.mark.parametrize("mode", ["collective", "localized"])
def test_trains_like_one_process(mode, in_scope):
    make = keras_sparse.optimizers.Adagrad if in_scope else keras_sparse.optimizers.Adam
    plain = make_model(look_up_alone, make(0.1))
    look_up = look_up_in_scope(mode) if in_scope else GroupEmbedding(make_tables(), mode)
    model = make_model(lambda *args: look_up(*args), ksd.DistributedOptimizer(make(0.1)))
    (group,) = (layer for layer in model.layers if isinstance(layer, GroupEmbedding))
    whole = slice(None)
    mine = slice(ksd.rank() * BATCH // ksd.size(), (ksd.rank() + 1) * BATCH // ksd.size())
    for all_samples, own in zip(batches(whole), batches(mine), strict=True):
        plain.train_on_batch(*all_samples)
        model.train_on_batch(*own)
        expected = plain.predict_on_batch(all_samples[0])[mine]
        np.testing.assert_allclose(model.predict_on_batch(own[0]), expected, atol=1e-4)
    for i, found in enumerate(group.get_weights(all_ranks=True)):
        (expected,) = plain.get_layer(f"table_{i}").get_weights()
        np.testing.assert_allclose(found, expected, atol=1e-4)
    if ksd.size() > 1:
        kinds = {placement.kind for placement in group.plan.placements}
        assert (kinds == {"data_parallel"}) == (mode == "localized")


def test_localized_refuses_dynamic_tables_of_several_ranks():
    tables = {"items": Embedding(None, 4, "sum")}
    if ksd.size() == 1:
        assert GroupEmbedding(tables, "localized")({"items": [[1, 2]]})["items"].shape == (1, 4)
        return
    with pytest.raises(ValueError, match=r"copies of a dynamic one.*dynamic table 'items'"):
        GroupEmbedding(tables, "localized")


@pytest.mark.parametrize("mode", ["collective", "localized"])
def test_config_makes_the_same_layer(mode):
    layer = GroupEmbedding(make_tables(), mode, name="group", wire_dtype="bfloat16")
    again = GroupEmbedding.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert again.mode == mode
    assert again.plan == layer.plan


def test_refuses_places_beside_localized_and_other_modes():
    with pytest.raises(ValueError, match='`strategy` must not be given with `mode="localized"`'):
        GroupEmbedding(make_tables(), "localized", strategy="basic")
    with pytest.raises(ValueError, match="`mode` must be one of"):
        GroupEmbedding(make_tables(), "distributed")


def test_init_may_be_called_again_and_takes_what_sok_takes():
    for _ in range(2):
        keras_sparse.init(global_batch_size=64)
    keras_sparse.init()
    assert 0 <= ksd.rank() < ksd.size()
