"""Checkpoints between two steps of an update have the gradients that were accumulated."""

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from checkpoint_cases import content
from checkpoint_cases import edit_manifest
from checkpoint_cases import FORMS
from checkpoint_cases import load
from checkpoint_cases import save
from keras_sparse import saving
from keras_sparse.layers import Embedding
from keras_sparse.optimizers import Adagrad
from keras_sparse.optimizers import Adam
from keras_sparse.optimizers import MultiOptimizer
from keras_sparse.tables.embedding_variable import tables_of

STEPS = 4


def one(steps=STEPS):
    return Adam(0.05, global_clipnorm=1.0, gradient_accumulation_steps=steps)


def several(steps=STEPS):
    options = {"gradient_accumulation_steps": steps}
    return MultiOptimizer({"embeddings": Adagrad(0.1, **options), "others": Adam(0.1, **options)})


def scaled(steps=STEPS):
    return keras.optimizers.LossScaleOptimizer(several(steps), initial_scale=8.0)


def make_model(optimizer):
    """A dynamic table that counts occurrences, and a static one of which one id has no row."""
    ids = keras.Input((3,), dtype="int64")
    admission = keras_sparse.CounterFilter(4, count="occurrences")
    rows = [
        Embedding(None, 4, "sum", admission=admission, seed=1)(ids),
        Embedding(8, 2, "mean", out_of_range="zero", seed=2)(ids),
    ]
    outputs = keras.layers.Dense(1, kernel_initializer="ones")(keras.layers.Concatenate()(rows))
    model = keras.Model(ids, outputs)
    if optimizer is not None:
        model.compile(optimizer, loss="mse", run_eagerly=True)
        optimizer.build(model.trainable_variables)
    return model


def train(model, first, end):
    for step in range(first, end):
        rng = np.random.default_rng(step)
        model.train_on_batch(rng.integers(0, 9, (6, 3)), rng.normal(size=(6, 1)))


@pytest.mark.parametrize(("make", "at"), [(one, 2), (one, 4), (several, 7), (scaled, 7)])
def test_training_resumes_between_any_two_steps(make, at, tmp_path):
    model = make_model(make())
    saving.save_checkpoint(model, tmp_path / "whole")
    train(model, 0, 1)
    saving.save_delta(model, tmp_path / "first")
    train(model, 1, at)
    saving.save_delta(model, tmp_path / "delta")
    saving.save_checkpoint(model, tmp_path / "again", links=False)
    loaded, changed = make_model(make()), make_model(make())
    train(loaded, 90, 93)  # which is forgotten
    saving.load_checkpoint(loaded, tmp_path / "again")
    saving.load_checkpoint(changed, tmp_path / "first")
    saving.apply_delta(changed, tmp_path / "delta")
    train(model, at, 9)
    for other in (loaded, changed):
        assert int(other.optimizer.iterations) == at // STEPS
        train(other, at, 9)
        assert content(other) == content(model)


def of_earlier_version(path):
    with h5py.File(path / "model.weights.h5", "r+") as file:
        del file["accumulation"]

    def change(fields):
        for table in fields["tables"]:
            table.pop("accumulated", None)

    edit_manifest(path, change)
    checksum = saving.format.folder_files.crc32_of(path / "model.weights.h5")
    edit_manifest(path, lambda fields: fields.update(weights_crc32=checksum, version=1))
    size = (path / "model.weights.h5").stat().st_size
    edit_manifest(path, lambda fields: fields["file_bytes"].update({"model.weights.h5": size}))


WARNING = "gradients since its last update are dropped"


@pytest.mark.filterwarnings("ignore:Skipping variable loading for optimizer")  # Keras' own
@pytest.mark.filterwarnings("ignore:The slots saved with")
@pytest.mark.parametrize(
    ("load_into", "change", "step"),
    [
        (lambda: one(3), None, 1),
        (lambda: one(None), None, 2),
        (several, None, 0),
        (one, of_earlier_version, 1),
    ],
    ids=["another number of steps", "no accumulation", "another optimizer", "an earlier version"],
)
def test_what_cannot_be_resumed_is_dropped_with_a_warning(load_into, change, step, tmp_path):
    model = make_model(one())
    train(model, 0, STEPS)
    rows = content(model)[:2]
    train(model, STEPS, STEPS + 2)
    saving.save_checkpoint(model, tmp_path / "saved")
    if change is not None:
        change(tmp_path / "saved")
    other = make_model(load_into())
    train(other, 90, 92)
    with pytest.warns(UserWarning, match=WARNING):
        saving.load_checkpoint(other, tmp_path / "saved")
    assert int(other.optimizer.iterations) == step
    accumulators = [v for v in other.optimizer.variables if "gradient_accumulator" in v.path]
    assert not any(np.any(each.numpy()) for each in accumulators)
    assert not other.layers[1].embeddings.table.accumulated
    if load_into is one:
        assert content(other)[:2] == rows
        expected = make_model(one())
        train(expected, 0, STEPS)
        for each in (expected, other):
            train(each, 20, 20 + STEPS)
        assert content(other) == content(expected)


def test_a_model_that_predicts_drops_them_in_silence(tmp_path):
    model = make_model(one())
    train(model, 0, STEPS + 1)
    saving.save_checkpoint(model, tmp_path / "saved")
    server = make_model(None)
    saving.load_checkpoint(server, tmp_path / "saved")
    ids = np.arange(24).reshape(-1, 3)
    np.testing.assert_array_equal(*(each(ids) for each in (model, server)))


def test_a_change_of_a_saved_gradient_is_damage(tmp_path):
    model = make_model(one())
    train(model, 0, 1)
    path = saving.save_checkpoint(model, tmp_path / "saved")
    with h5py.File(next(path.glob("rows-*.h5")), "r+") as file:
        file["0/accumulated_values"][0, 0] += 1
    with pytest.raises(saving.CheckpointDamagedError, match="accumulated_values"):
        saving.verify(path)


@pytest.mark.parametrize(
    ("make", "form"), [*((scaled, form) for form in FORMS[:2]), (one, FORMS[0]), (several, "keras")]
)
def test_a_file_of_keras_has_the_state_of_the_last_update(make, form, tmp_path):
    model, expected = make_model(make()), make_model(make())
    for each in (model, expected):
        train(each, 0, STEPS)
    train(model, STEPS, STEPS + 1)
    with pytest.warns(UserWarning, match="1 of 4 steps accumulated") as warned:
        path = save(model, tmp_path, form)
    assert sum("steps accumulated" in str(each.message) for each in warned) == 1
    if form == "keras":
        loaded = keras.saving.load_model(path)
    else:
        train(loaded := make_model(make()), 90, 93)
        load(loaded, path)
    for each in (loaded, expected):
        if make is scaled:  # which counts all steps
            each.optimizer.step_counter.assign(0)
    assert content(loaded) == content(expected)
    # The model itself goes on as if it had not been saved.
    train(model, STEPS + 1, 2 * STEPS)
    for each in (expected, loaded):
        train(each, STEPS, 2 * STEPS)
        if make is scaled:
            each.optimizer.step_counter.assign(model.optimizer.step_counter)
        assert content(each) == content(model)


def test_a_table_left_out_of_a_load_keeps_no_half_of_an_update(tmp_path):
    saved = make_model(one())
    saved.save_weights(tmp_path / "saved.weights.h5")
    saving.save_checkpoint(saved, tmp_path / "saved")
    for load_into in (
        lambda model: model.load_weights(tmp_path / "saved.weights.h5", skip_mismatch=True),
        lambda model: saving.load_checkpoint(model, tmp_path / "saved", skip_mismatch=True),
    ):
        ids = keras.Input((3,), dtype="int64")
        rows = Embedding(None, 4, "sum", name="not_in_the_file")(ids)
        model = keras.Model(ids, keras.layers.Dense(1)(rows))
        model.compile(one(), loss="mse", run_eagerly=True)
        train(model, 0, 3)
        (table,) = (each for each in model.variables if hasattr(each, "native"))
        assert len(table.table.accumulated) > 0
        with pytest.warns(UserWarning, match=r"not be loaded|are dropped"):
            load_into(model)
        assert (len(table.table.accumulated), model.optimizer._iterations % STEPS) == (0, 0)


@pytest.mark.filterwarnings("ignore:Skipping variable loading for optimizer")  # by Keras
@pytest.mark.filterwarnings("ignore:The slots saved with")
def test_counts_that_are_equal_by_chance_mix_no_gradients(tmp_path):
    saved, model = make_model(Adagrad(0.1, gradient_accumulation_steps=STEPS)), make_model(one())
    for each in (saved, model):
        train(each, 0, 3)
    saving.save_checkpoint(saved, tmp_path / "saved")
    with pytest.warns(UserWarning, match="since its last update are dropped"):
        saving.load_checkpoint(model, tmp_path / "saved")
    assert all(len(each.accumulated) == 0 for each in tables_of(model))
    assert int(model.optimizer._iterations) == 0


@pytest.mark.parametrize("form", FORMS[:2])
def test_a_loop_of_ones_own_saves_the_state_of_its_last_update(form, tmp_path):
    model, optimizer = make_model(None), one()
    optimizer.build(model.trainable_variables)
    before = content(model)
    ids = np.arange(6).reshape(2, 3)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(ids) ** 2)
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    with pytest.warns(UserWarning, match="1 of 4 steps accumulated"):
        save(model, tmp_path, form)
    assert int(optimizer._iterations) == 1
    (dynamic, _) = (each for each in model.variables if hasattr(each, "native"))
    assert len(dynamic.table.accumulated) > 0
    assert content(model) == before
