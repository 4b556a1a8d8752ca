"""Saving, loading and training on equals never having stopped."""

import json
import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest

import checks
import keras_sparse
from keras_sparse.layers import Embedding

OPTIMIZERS = ["SGD", "Adagrad", "LazyAdam"]
IDS = np.random.default_rng(0).integers(0, 40, (64, 3))
TARGETS = np.random.default_rng(1).normal(size=(64, 1)).astype("float32")


def make_model(optimizer, seed=None):
    """A model of a static and a dynamic table, compiled."""
    inputs = keras.Input((3,), dtype="int64")
    static = Embedding(40, 4, "mean", seed=seed)(inputs)
    dynamic = Embedding(None, 4, "sum", seed=seed)(inputs)
    outputs = keras.layers.Dense(1)(keras.layers.Concatenate()([static, dynamic]))
    model = keras.Model(inputs, outputs)
    model.compile(getattr(keras_sparse.optimizers, optimizer)(0.05), loss="mse")
    return model


def fit(model, first, last, **kwargs):
    """Trains on one part of the samples: the later part has keys that the first did not."""
    model.fit(
        IDS[first:last], TARGETS[first:last], batch_size=8, shuffle=False, verbose=0, **kwargs
    )


def assert_same_models(left, right):
    for ours, other in zip(left.trainable_variables, right.trainable_variables, strict=True):
        if isinstance(ours, keras_sparse.EmbeddingVariable):
            checks.assert_same_tables(ours, other)
        else:
            np.testing.assert_array_equal(ours.numpy(), other.numpy())
    assert int(left.optimizer.iterations) == int(right.optimizer.iterations)
    unseen = np.array([[1000, -7, 2**62]])
    tables = [model.layers[2].embeddings for model in (left, right)]
    rows = [keras_sparse.ops.lookup([table], [unseen[0]])[0] for table in tables]
    np.testing.assert_array_equal(*rows)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", ["model.keras", "model.weights.h5"])
def test_training_on_equals_never_stopping(name, optimizer, tmp_path):
    model = make_model(optimizer)
    fit(model, 0, 32)
    if name.endswith(".keras"):
        model.save(tmp_path / name)
        loaded = keras.saving.load_model(tmp_path / name)
    else:
        model.save_weights(tmp_path / name)
        loaded = make_model(optimizer)
        loaded.optimizer.build(loaded.trainable_variables)
        loaded.load_weights(tmp_path / name)
    assert_same_models(loaded, model)
    for each in (model, loaded):
        fit(each, 32, 64)
    assert_same_models(loaded, model)


def test_a_model_in_training_goes_back_to_its_file(tmp_path):
    model = make_model("Adagrad")
    fit(model, 0, 32)
    model.save_weights(tmp_path / "model.weights.h5")
    fit(model, 32, 64)
    expected = model.predict(IDS, verbose=0)
    fit(model, 0, 64)
    model.load_weights(tmp_path / "model.weights.h5")
    fit(model, 32, 64)
    np.testing.assert_array_equal(model.predict(IDS, verbose=0), expected)


@pytest.mark.parametrize("optimizer", ["Adagrad", "LazyAdam"])
def test_another_process_trains_on_to_the_same_bits(optimizer, tmp_path):
    model = make_model(optimizer)
    fit(model, 0, 32)
    model.save(tmp_path / "model.keras")
    fit(model, 32, 64)
    np.savez(tmp_path / "data.npz", ids=IDS[32:], targets=TARGETS[32:])
    script = """
        import json, sys
        import keras, numpy as np
        import keras_sparse
        model = keras.saving.load_model(sys.argv[1])
        data = np.load(sys.argv[2])
        model.fit(data["ids"], data["targets"], batch_size=8, shuffle=False, verbose=0)
        print(json.dumps(model.predict(data["ids"], verbose=0).tolist()))
    """
    output = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), "model.keras", "data.npz"],
        capture_output=True,
        check=True,
        cwd=tmp_path,
        text=True,
    ).stdout
    expected = model.predict(IDS[32:], verbose=0).tolist()
    assert json.loads(output.splitlines()[-1]) == expected


def test_a_model_checkpoint_brings_back_the_best_weights(tmp_path):
    model = make_model("Adagrad")
    path = tmp_path / "best.weights.h5"
    checkpoint = keras.callbacks.ModelCheckpoint(
        path, monitor="loss", mode="max", save_best_only=True, save_weights_only=True
    )
    fit(model, 0, 64, epochs=3, callbacks=[checkpoint])  # the first epoch has the largest loss
    after_three = model.evaluate(IDS, TARGETS, verbose=0)
    model.load_weights(path)
    assert model.evaluate(IDS, TARGETS, verbose=0) > after_three
    assert int(model.optimizer.iterations) == 8


class PowerCut(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if epoch == 1:
            raise KeyboardInterrupt


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_backup_and_restore_goes_on_where_it_was_cut_off(optimizer, tmp_path):
    expected = make_model(optimizer, seed=3)
    dense = expected.get_layer(index=-1)
    cut, resumed = make_model(optimizer, seed=3), make_model(optimizer, seed=3)
    for model in (cut, resumed):
        model.get_layer(index=-1).set_weights(dense.get_weights())
    fit(expected, 0, 64, epochs=3)
    backup = keras.callbacks.BackupAndRestore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        fit(cut, 0, 64, epochs=3, callbacks=[PowerCut(), backup])
    backup = keras.callbacks.BackupAndRestore(tmp_path)
    fit(resumed, 0, 64, epochs=3, callbacks=[backup])
    assert_same_models(resumed, expected)


def early_stopping_model(input_dim):
    inputs = keras.Input((3,), dtype="int64")
    outputs = keras.layers.Dense(1)(Embedding(input_dim, 4, "mean")(inputs))
    model = keras.Model(inputs, outputs)
    model.compile(keras_sparse.optimizers.Adagrad(0.05), loss="mse")
    return model


def early_stopping():
    return keras.callbacks.EarlyStopping("loss", mode="max", restore_best_weights=True)


def test_early_stopping_restores_a_static_table():
    model = early_stopping_model(40)
    fit(model, 0, 64, epochs=1)
    keep = early_stopping_model(40)
    keep.set_weights(model.get_weights())
    keep.compile(keras_sparse.optimizers.Adagrad(0.05), loss="mse")
    fit(keep, 0, 64, epochs=3, callbacks=[early_stopping()])  # the loss falls: epoch 1 is "best"
    twin = early_stopping_model(40)
    twin.set_weights(model.get_weights())
    fit(twin, 0, 64, epochs=1)
    np.testing.assert_array_equal(keep.get_weights()[0], twin.get_weights()[0])


def test_early_stopping_names_what_to_use_for_a_dynamic_table():
    with pytest.raises(NotImplementedError, match=r"ModelCheckpoint\(path, save_best_only=True\)"):
        fit(early_stopping_model(None), 0, 64, epochs=2, callbacks=[early_stopping()])
