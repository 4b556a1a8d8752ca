"""Layers that are looked up together, as one layer of a model."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
from keras_sparse.layers import Embedding
from keras_sparse.layers import GroupEmbedding
from stages import keep_stages

IDS = np.array([[1, 2], [3, 1], [0, 0]])
RAGGED = tf.RaggedTensor.from_row_splits([1, 2, 3, 1], [0, 1, 1, 4])
NAMES = ["users", "items", "words"]


def make_tables(folder=None):
    """Of three combiners, and one of them dynamic; with a folder, two of them that and on an SSD.

    Memory is for some 100 of their rows.
    """
    users, items = {"input_dim": 20}, {"input_dim": None}
    if folder is not None:
        users, items = (
            {"input_dim": None}
            | {"storage": keras_sparse.StorageOption("DRAM_SSDHASH", str(folder / name), [8192])}
            for name in ("users", "items")
        )
    return {
        "users": Embedding(output_dim=4, combiner="sum", seed=1, **users),
        "items": Embedding(output_dim=3, combiner="mean", seed=2, **items),
        "words": Embedding(20, 2, seed=3),
    }


def make_data(num_samples=16):
    random = np.random.default_rng(0)
    data = {name: random.integers(0, 20, (num_samples, 2)) for name in NAMES}
    data["items"] -= 10
    return data, random.normal(size=(num_samples, 1)).astype("float32")


def make_model(look_up, run_eagerly=True):
    inputs = {name: keras.Input((2,), dtype="int64", name=name) for name in NAMES}
    rows = look_up(inputs)
    joined = [keras.layers.Flatten()(rows[name]) for name in NAMES]
    joined = keras.layers.Concatenate()(joined)
    outputs = keras.layers.Dense(1, kernel_initializer="ones", dtype="float32")(joined)
    model = keras.Model(inputs, outputs)
    model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse", run_eagerly=run_eagerly)
    return model


def fit(model, epochs=3):
    data, targets = make_data()
    model.fit(data, targets, batch_size=4, epochs=epochs, shuffle=False, verbose=0)
    return model.predict(data, verbose=0)


@pytest.mark.parametrize(
    ("input_dim", "inputs", "combiner", "output_shape", "mode", "dtype_policy"),
    [
        (4, IDS, "mean", (3, 5), "collective", "float32"),
        (None, IDS, None, (3, 2, 5), "localized", "mixed_float16"),
        (None, RAGGED, "sum", (3, 5), "localized", "float32"),
        (4, RAGGED, "mean", (3, 5), "collective", "mixed_float16"),
    ],
    indirect=["dtype_policy"],
)
def test_keeps_the_layer_contract(
    input_dim, inputs, combiner, output_shape, mode, dtype_policy, tmp_path
):
    layer = GroupEmbedding(Embedding(input_dim, 5, combiner), mode)
    checks.check_layer(layer, inputs, output_shape, tmp_path)


@pytest.fixture(scope="module")
def alone():
    """Tables that are trained each by itself, and what their model then predicts."""
    tables = make_tables()
    model = make_model(lambda inputs: {name: tables[name](inputs[name]) for name in NAMES})
    return tables, fit(model)


@pytest.mark.parametrize("mode", ["collective", "localized"])
def test_a_dict_of_layers_trains_as_each_layer_alone(mode, alone):
    tables, expected = alone
    group = GroupEmbedding(make_tables(), mode)
    model = make_model(group)
    np.testing.assert_allclose(fit(model), expected, atol=1e-6)
    assert list(group.stats()) == NAMES
    ids = {name: np.arange(6).reshape(3, 2) for name in reversed(NAMES)}
    for name, rows in group(ids).items():
        np.testing.assert_allclose(rows, tables[name](ids[name]), atol=1e-6)


def test_exact_prefetch_from_an_ssd_is_used_and_changes_no_bit(tmp_path, monkeypatch):
    random = np.random.default_rng(1)
    ids = {name: random.integers(0, 20 if name == "words" else 600, (480, 2)) for name in NAMES}
    dataset = tf.data.Dataset.from_tensor_slices((ids, random.normal(size=(480, 1)))).batch(32)
    plain, group = (GroupEmbedding(make_tables(tmp_path / name)) for name in "ab")
    histories, stages = [], keep_stages(monkeypatch)
    for layer in (plain, group):
        model, batches = make_model(layer, run_eagerly=False), dataset
        if layer is group:
            batches = keras_sparse.data.prefetch_lookups(dataset, model, 2, 4, "exact")
        fit = {"epochs": 2, "shuffle": False, "verbose": 0, "callbacks": stages}
        histories.append(model.fit(batches, **fit).history)
    assert histories[0] == histories[1]
    for ours, expected in zip(group.tables, plain.tables, strict=True):
        checks.assert_same_tables(ours, expected)
    for layer, num_staged in ((plain, 0), (group, 2 * len(dataset))):
        stats = layer.stats()
        assert all(stats[name]["tiers"]["SSDHASH"]["rows"] > 100 for name in ("users", "items"))
        staged = [each["prefetch"]["staged"] for each in stats.values()]
        used = [each["prefetch"]["used"] for each in stats.values()]
        assert sum(staged) == num_staged, "one lookup a step, of all tables"
        assert (sum(used) > 0) == (layer is group)
