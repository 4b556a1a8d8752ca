"""Group embeddings in both modes: the training of one process with the whole batch."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from checks import SumOfRaggedAxis
from keras_sparse.distribute.ranks import runtime
from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.layers import Embedding
from keras_sparse.layers import group_embedding_scope
from keras_sparse.layers import GroupEmbedding
from prefetch_on_ranks import assert_same

# Rows of a table, their width, its combiner, and what its ids are.
STATIC = [
    (11, 4, "sum", "weighted"),
    (7, 1, "mean", "ragged"),
    (30, 8, None, "dense"),
    (7, 3, "sqrtn", "dense"),
]
MIXED = [
    (None, 4, "mean", "weighted"),
    (11, 3, "sqrtn", "ragged weighted"),
    (None, 5, None, "ragged"),
    (None, 2, "sqrtn", "weighted"),
]
BATCH, STEPS = 12, 6  # a batch of all ranks
KEYS = np.arange(-9, 9)  # of dynamic tables


def make_tables(tables=STATIC):
    return [Embedding(*table[:3], seed=i, name=f"table_{i}") for i, table in enumerate(tables)]


def alone(tables):
    def look_up(inputs, weights):
        return [
            table(ids) if weight is None else table(ids, weights=weight)
            for table, ids, weight in zip(make_tables(tables), inputs, weights, strict=True)
        ]

    return look_up


def in_scope_of(mode):
    def look_up(inputs, weights):
        with group_embedding_scope(mode=mode):
            return alone(STATIC)(inputs, weights)

    return look_up


def make_model(look_up, optimizer, tables=STATIC):
    inputs, weights = [], []
    for _, _, _, kind in tables:
        is_ragged = "ragged" in kind
        inputs.append(keras.Input((None,), dtype="int64", ragged=is_ragged))
        has_weights = "weighted" in kind
        weights.append(keras.Input((None,), ragged=is_ragged) if has_weights else None)
    outputs = look_up(inputs, weights)
    for i, (_, _, combiner, kind) in enumerate(tables):
        if combiner is None:
            pool = SumOfRaggedAxis() if kind == "ragged" else keras.layers.GlobalAveragePooling1D()
            outputs[i] = pool(outputs[i])
    outputs = keras.layers.Concatenate()(outputs)
    outputs = keras.layers.Dense(1, kernel_initializer="ones")(outputs)
    model = keras.Model([*inputs, *(each for each in weights if each is not None)], outputs)
    model.compile(optimizer, loss="mse")
    return model


def make_group(optimizer, tables=STATIC, mode="collective"):
    """A model for ranks, and its layer."""
    look_up = GroupEmbedding(make_tables(tables), mode, name="group")
    optimizer = ksd.DistributedOptimizer(optimizer)
    return make_model(lambda *args: look_up(*args), optimizer, tables), look_up


def batches(part, tables=STATIC):
    """The batches, of whose samples a rank has this part."""
    random = np.random.default_rng(2)
    for _ in range(STEPS):
        ids, weights = [], []
        for rows, _, combiner, kind in tables:
            shape = (BATCH, 4)
            each = random.choice(KEYS, shape) if rows is None else random.integers(0, rows, shape)
            lengths = random.integers(0, 5, BATCH) if "ragged" in kind else None
            ids.append(part_of(each, lengths, part))
            if "weighted" in kind:
                lowest = -2 if combiner == "sum" else 0.5  # a mean of what adds up to 0 is none
                each = random.uniform(lowest, 2, shape).astype(np.float32)
                weights.append(part_of(each, lengths, part))
        yield [*ids, *weights], random.normal(size=(BATCH, 1))[part]


def part_of(values, lengths, part):
    if lengths is None:
        return values[part]
    return tf.RaggedTensor.from_tensor(values[part], lengths[part])


def own_part():
    return slice(ksd.rank() * BATCH // ksd.size(), (ksd.rank() + 1) * BATCH // ksd.size())


def train_beside(plain, model, tables):
    """Trains the plain model on whole batches, the other on this rank's, and compares them."""
    mine = own_part()
    steps = zip(batches(slice(None), tables), batches(mine, tables), strict=True)
    for all_samples, own in steps:
        plain.train_on_batch(*all_samples)
        model.train_on_batch(*own)
        expected = plain.predict_on_batch(all_samples[0])[mine]
        np.testing.assert_allclose(model.predict_on_batch(own[0]), expected, atol=1e-4)


@pytest.mark.parametrize("in_scope", [False, True])
@pytest.mark.parametrize("mode", ["collective", "localized"])
def test_trains_like_one_process(mode, in_scope):
    make = keras_sparse.optimizers.Adagrad if in_scope else keras_sparse.optimizers.Adam
    plain = make_model(alone(STATIC), make(0.1))
    if in_scope:
        model = make_model(in_scope_of(mode), ksd.DistributedOptimizer(make(0.1)))
    else:
        model = make_group(make(0.1), STATIC, mode)[0]
    (group,) = (layer for layer in model.layers if isinstance(layer, GroupEmbedding))
    train_beside(plain, model, STATIC)
    for i, found in enumerate(group.get_weights(all_ranks=True)):
        (expected,) = plain.get_layer(f"table_{i}").get_weights()
        np.testing.assert_allclose(found, expected, atol=1e-4)
    if ksd.size() > 1:
        kinds = {placement.kind for placement in group.plan.placements}
        assert (kinds == {"data_parallel"}) == (mode == "localized")


def rows_of(look_up, tables=MIXED):
    """All rows of each table, by looking them up one by one."""
    ids = [KEYS if rows is None else np.arange(rows) for rows, *_ in tables]
    rows = look_up([tf.constant(each)[:, tf.newaxis] for each in ids])
    return [tf.reshape(each, (len(each), -1)) for each in rows]


@pytest.mark.parametrize("name", ["Adagrad", "Adam"])
def test_dynamic_weighted_and_ragged_tables_train_like_one_process(name):
    make = getattr(keras_sparse.optimizers, name)
    plain = make_model(alone(MIXED), make(0.1), MIXED)
    model, group = make_group(make(0.1), MIXED)
    layers = [plain.get_layer(f"table_{i}") for i in range(len(MIXED))]

    def look_up_plain(ids):
        return [layer(each) for layer, each in zip(layers, ids, strict=True)]

    first = rows_of(look_up_plain)
    for left, right in zip(rows_of(group), first, strict=True):
        np.testing.assert_array_equal(left, right)
    train_beside(plain, model, MIXED)
    expected = rows_of(look_up_plain)
    for found, each, start in zip(rows_of(group), expected, first, strict=True):
        np.testing.assert_allclose(found, each, atol=1e-4)
        assert np.abs(each - start).max() > 0.05
    for table, stats in group.stats().items():
        if MIXED[int(table[-1])][0] is None:
            assert stats["rows"] == np.sum(KEYS % ksd.size() == ksd.rank())


def train_on(model, steps):
    for step in steps:
        model.train_on_batch(*step)


def test_training_goes_on_from_a_file_as_if_never_stopped(folder):
    data = list(batches(own_part(), MIXED))
    model, _ = make_group(keras_sparse.optimizers.Adam(0.1), MIXED)
    train_on(model, data[: STEPS // 2])
    model.save(folder / "a.keras")
    loaded = keras.models.load_model(folder / "a.keras")
    assert_same(loaded, model)
    for each in (model, loaded):
        train_on(each, data[STEPS // 2 :])
    assert_same(loaded, model)


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


def test_init_may_be_called_again_and_takes_what_sok_takes(monkeypatch):
    launched = (int(os.environ.get("HOROVOD_RANK", 0)), int(os.environ.get("HOROVOD_SIZE", 1)))
    if ksd.size() > 1:
        horovod = runtime.horovod()
        assert (horovod.rank(), horovod.size()) == launched

        def join_again():
            raise AssertionError("the ranks have joined")

        monkeypatch.setattr(horovod, "init", join_again)
    for arguments in ({"global_batch_size": 64}, {"global_batch_size": 65}, {}):
        assert keras_sparse.init(**arguments) is None
        assert (ksd.rank(), ksd.size()) == launched
        assert gather_objects(ksd.rank(), "rank") == list(range(launched[1]))
    with pytest.raises(TypeError, match="batch_size"):
        keras_sparse.init(batch_size=64)
