"""Saving, loading and training on equals never having stopped."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

import checks
import keras_sparse
from checkpoint_cases import FORMS
from checkpoint_cases import reloaded
from keras_sparse.layers import Embedding
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import save_delta
from optimizer_cases import CLASSES
from optimizer_cases import make_model
from optimizer_cases import PLAIN_ADAM
from optimizer_cases import tables_of

IDS = np.random.default_rng(0).integers(0, 40, (64, 2))
TARGETS = np.random.default_rng(1).normal(size=(64, 1)).astype("float32")


def made(name):
    return getattr(keras_sparse.optimizers, name)(0.05)


def fit(model, last, epochs, callbacks=()):
    options = {"batch_size": 8, "shuffle": False, "verbose": 0}
    model.fit(IDS[:last], TARGETS[:last], epochs=epochs, callbacks=callbacks, **options)


def train(model, first, last):
    """Trains on one part of the samples: the later part has keys that the first did not."""
    for at in range(first, last, 8):
        model.train_on_batch(IDS[at : at + 8], TARGETS[at : at + 8])


def assert_same_models(left, right):
    for ours, other in zip(left.trainable_variables, right.trainable_variables, strict=True):
        if isinstance(ours, keras_sparse.EmbeddingVariable):
            checks.assert_same_tables(ours, other)
        else:
            np.testing.assert_array_equal(ours.numpy(), other.numpy())
    assert_same_unseen_rows(left, right)


def assert_same_unseen_rows(left, right):
    assert int(left.optimizer.iterations) == int(right.optimizer.iterations)
    unseen = np.array([[1000, -7, 2**62]])
    tables = [tables_of(model)[1] for model in (left, right)]
    rows = [keras_sparse.ops.lookup([table], [unseen[0]])[0] for table in tables]
    np.testing.assert_array_equal(*rows)


def assert_close_models(left, right, atol=2e-7):
    """Raises unless the models are the same but for rounding."""
    for ours, other in zip(left.trainable_variables, right.trainable_variables, strict=True):
        if not isinstance(ours, keras_sparse.EmbeddingVariable):
            np.testing.assert_allclose(ours.numpy(), other.numpy(), rtol=0, atol=atol)
            continue
        records, expected = (
            np.array([np.frombuffer(r, "float32") for _, r in sorted(content.items())])
            for content in map(checks.table_content, (ours, other))
        )
        rows = slice(0, ours.output_dim)
        np.testing.assert_allclose(records[:, rows], expected[:, rows], rtol=0, atol=atol)
        np.testing.assert_allclose(records, expected, rtol=1e-4, atol=atol)
    assert_same_unseen_rows(left, right)


def check_resumes(case, wrap, forms, tmp_path):
    """Bit for bit, but where a saved row makes up for missed steps earlier than an unsaved one."""
    never_saved, model = (make_model(wrap(case.make()), 40, run_eagerly=True) for _ in range(2))
    for each in (never_saved, model):
        train(each, 0, 24)

    def other():
        model = make_model(wrap(case.make()), 40, seed=4, run_eagerly=True)
        model.optimizer.build(model.trainable_variables)
        return model

    loaded = [reloaded(model, other, tmp_path, form) for form in forms]
    for each in loaded:
        assert type(each.optimizer) is type(model.optimizer)
        assert_same_models(each, model)
        for ours, other in zip(each.optimizer.variables, model.optimizer.variables, strict=True):
            np.testing.assert_array_equal(ours, other, err_msg=ours.path)
    for each in (never_saved, model, *loaded):
        train(each, 24, 40)
    assert_same_models(model, never_saved)
    for each in loaded:
        (assert_close_models if case.catches_up else assert_same_models)(each, model)
    return loaded


def decaying(case):
    rate = keras.optimizers.schedules.ExponentialDecay(case.arguments["learning_rate"], 2, 0.5)
    return case._replace(arguments={**case.arguments, "learning_rate": rate})


RESUMED = {case.ours.__name__: case for case in CLASSES}
RESUMED["plain Adam"] = PLAIN_ADAM
RESUMED |= {f"{name} on a schedule": decaying(RESUMED[name]) for name in ("SGD", "plain Adam")}


@pytest.mark.parametrize("name", RESUMED)
def test_training_on_equals_never_stopping(name, tmp_path):
    # The other form has no config of an optimizer, whose model had another state.
    forms = FORMS[:2] if name in ("SGD", "AdamAsync", "plain Adam on a schedule") else ["keras"]
    for loaded in check_resumes(RESUMED[name], lambda optimizer: optimizer, forms, tmp_path):
        assert type(loaded.optimizer) is RESUMED[name].ours


def scaled(optimizer):
    """A loss scale that grows before the model is saved, and again after it is loaded."""
    return keras.optimizers.LossScaleOptimizer(
        optimizer, initial_scale=256.0, dynamic_growth_steps=2
    )


@pytest.mark.parametrize(
    ("case", "name"),
    # Without and with slots, and those that keep numbers of their own.
    [
        *((RESUMED[name], "keras") for name in ("SGD", "Adagrad", "Adam", "AdamAsync")),
        (RESUMED["Nadam"], "weights.h5"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.ours.__name__,
)
@pytest.mark.parametrize("dtype_policy", ["mixed_float16"], indirect=True)
def test_training_on_in_half_precision_equals_never_stopping(name, case, dtype_policy, tmp_path):
    (loaded,) = check_resumes(case, scaled, [name], tmp_path)
    assert type(loaded.optimizer.inner_optimizer) is case.ours
    assert loaded.layers[-1].compute_dtype == "float16"
    assert float(loaded.optimizer.dynamic_scale) == 1024.0


TRAIN_ON = """
import json, sys
import keras, numpy as np
import keras_sparse
data = np.load("data.npz")
for name in sys.argv[1:]:
    model = keras.saving.load_model(f"{name}.keras")
    model.fit(data["ids"], data["targets"], batch_size=8, shuffle=False, verbose=0)
    print(json.dumps(model.predict(data["ids"], verbose=0).tolist()))
"""


@pytest.mark.slow("starts processes")
def test_another_process_trains_on_to_the_same_model(tmp_path):
    """Also one where `tf.keras` is to be the old Keras, and is not installed."""
    tolerances = {"AdamAsync": 0, "Adam": 1e-6}
    models = {name: make_model(made(name), 40) for name in tolerances}
    for optimizer, model in models.items():
        train(model, 0, 32)
        model.save(tmp_path / f"{optimizer}.keras")
        train(model, 32, 64)
    np.savez(tmp_path / "data.npz", ids=IDS[32:], targets=TARGETS[32:])
    output = subprocess.run(
        [sys.executable, "-c", TRAIN_ON, *models],
        capture_output=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "TF_USE_LEGACY_KERAS": "1"},
        text=True,
    ).stdout
    loaded = map(json.loads, output.splitlines()[-2:])
    for (optimizer, model), predicted in zip(models.items(), loaded, strict=True):
        expected = model.predict(IDS[32:], verbose=0)
        np.testing.assert_allclose(predicted, expected, rtol=0, atol=tolerances[optimizer])


def test_a_model_checkpoint_brings_back_the_best_weights(tmp_path):
    model = make_model(made("Adagrad"), 40, run_eagerly=True)
    path = tmp_path / "best.weights.h5"
    checkpoint = keras.callbacks.ModelCheckpoint(
        path, monitor="loss", mode="max", save_best_only=True, save_weights_only=True
    )
    fit(model, 24, 3, [checkpoint])  # the first epoch has the largest loss
    after_three = model.test_on_batch(IDS[:24], TARGETS[:24])
    model.load_weights(path)
    assert model.test_on_batch(IDS[:24], TARGETS[:24]) > after_three
    assert int(model.optimizer.iterations) == 3


class PowerCut(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if epoch == 1:
            raise KeyboardInterrupt


@pytest.mark.parametrize("optimizer", ["Adagrad", "Nadam"])
def test_backup_and_restore_goes_on_where_it_was_cut_off(optimizer, tmp_path):
    eagerly = {"run_eagerly": optimizer == "Adagrad"}
    expected, cut, resumed = (make_model(made(optimizer), 40, **eagerly) for _ in range(3))
    fit(expected, 24, 3)
    backup = keras.callbacks.BackupAndRestore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        fit(cut, 24, 3, [PowerCut(), backup])
    backup = keras.callbacks.BackupAndRestore(tmp_path)
    fit(resumed, 24, 3, [backup])
    if optimizer == "Nadam":  # a saved row makes up for missed steps earlier
        assert_close_models(resumed, expected, atol=1e-6)
    else:
        assert_same_models(resumed, expected)


def early_stopping_model(input_dim):
    inputs = keras.Input((2,), dtype="int64")
    outputs = keras.layers.Dense(1)(Embedding(input_dim, 4, "mean")(inputs))
    model = keras.Model(inputs, outputs)
    model.compile(keras_sparse.optimizers.Adagrad(0.05), loss="mse", run_eagerly=True)
    return model


def early_stopping():
    return keras.callbacks.EarlyStopping("loss", mode="max", restore_best_weights=True)


def test_early_stopping_restores_a_static_table():
    model = early_stopping_model(40)
    train(model, 0, 64)
    keep = early_stopping_model(40)
    keep.set_weights(model.get_weights())
    fit(keep, 64, 3, [early_stopping()])  # the loss falls: epoch 1 is "best"
    twin = early_stopping_model(40)
    twin.set_weights(model.get_weights())
    train(twin, 0, 64)
    np.testing.assert_array_equal(keep.get_weights()[0], twin.get_weights()[0])


def test_early_stopping_names_what_to_use_for_a_dynamic_table():
    with pytest.raises(NotImplementedError, match=r"ModelCheckpoint\(path, save_best_only=True\)"):
        fit(early_stopping_model(None), 8, 2, [early_stopping()])


@pytest.mark.parametrize("kind", [save_checkpoint, save_delta])
def test_random_layers_go_on_in_their_numbers(kind, tmp_path):
    def make():
        keras.utils.set_random_seed(1)
        ids = keras.Input((2,), dtype="int64")
        rows = keras_sparse.layers.Embedding(None, 8, "sum", name="table")(ids)
        hidden = keras.layers.GaussianNoise(0.1)(keras.layers.Dropout(0.5)(rows))
        model = keras.Model(ids, keras.layers.Dense(1)(hidden))
        eagerly = kind is save_delta
        model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse", run_eagerly=eagerly)
        return model

    def train(model):
        for ids in np.arange(40).reshape(4, 5, 2):
            model.train_on_batch(ids, np.ones((5, 1)))

    expected = make()
    train(expected)
    save_checkpoint(expected, tmp_path / "checkpoint")
    if kind is save_delta:
        train(expected)
        save_delta(expected, tmp_path / "delta")
    train(expected)
    model = make()
    load_checkpoint(model, tmp_path / ("delta" if kind is save_delta else "checkpoint"))
    train(model)
    np.testing.assert_array_equal(model(IDS), expected(IDS))
