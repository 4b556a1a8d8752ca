"""Checkpoints, files and the callback where each rank has a part of the tables."""

import contextlib
import dataclasses
import os
import signal
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse import saving
from keras_sparse.callbacks import checkpoint
from keras_sparse.callbacks import stop_signal
from keras_sparse.commands import inspect_command
from keras_sparse.distribute.ranks.collectives import broadcast_object
from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.optimizers.support.step_count import accumulation
from keras_sparse.saving import CheckpointInfo
from keras_sparse.saving.checkpoint import table_writer
from keras_sparse.saving.table_format import table_loader

SIZES = [(12, 4), (9, 3), (None, 2)]
NUM_STEPS = 4  # an epoch


def make_model(seed=0, accumulate=None, in_graph=False, per_execution=1, **places):
    layers = [Embedding(*size, "sum", seed=seed + i) for i, size in enumerate(SIZES)]
    ids = keras.Input((2,), dtype="int64")
    spread = DistributedEmbedding(layers, **(places or {"row_slice_threshold": 40}))
    rows = keras.layers.Concatenate()(spread([ids] * len(SIZES)))
    outputs = keras.layers.Dense(1, kernel_initializer="ones")(rows)
    model = keras.Model(ids, outputs)
    inner = keras_sparse.optimizers.Adagrad(0.1, gradient_accumulation_steps=accumulate)
    optimizer = ksd.DistributedOptimizer(inner)
    options = {"run_eagerly": not in_graph, "steps_per_execution": per_execution}
    model.compile(optimizer, loss="mse", **options)
    optimizer.build(model.trainable_variables)
    return model


def fit(model, epochs, callbacks=(), is_ahead=False, is_validated=False):
    random = np.random.default_rng(0)
    ids = random.integers(0, 9, (NUM_STEPS * 12, 2))
    targets = random.normal(size=(NUM_STEPS * 12, 1))
    mine = [each[ksd.rank() :: ksd.size()] for each in (ids, targets)]
    batch_size = 12 // ksd.size()
    data = mine
    if is_ahead:
        batches = tf.data.Dataset.from_tensor_slices(tuple(mine)).batch(batch_size)
        data = [keras_sparse.data.prefetch_lookups(batches, model, capacity=2)]
    options = {"batch_size": None if is_ahead else batch_size, "epochs": epochs, "shuffle": False}
    if is_validated:
        options |= {"validation_data": mine, "validation_batch_size": batch_size}
    model.fit(*data, verbose=0, callbacks=callbacks, **options)


def rows_of(model):
    return model.predict_on_batch(np.arange(9)[:, np.newaxis].repeat(2, 1))


def callback(folder, **kwargs):
    return keras_sparse.callbacks.Checkpoint(folder, verbose=False, **kwargs)


def names(folder):
    """What rank 0 sees, once all are there."""
    return broadcast_object(sorted(each.name for each in folder.iterdir()), 0, "names")


def test_goes_on_from_what_all_ranks_have_saved(folder):
    whole = make_model()
    fit(whole, 3)
    fit(make_model(), 2, [callback(folder, every_steps=4, delta_every=2, keep=1)])
    assert names(folder) == ["step-000000008"]
    other = make_model(seed=5)
    fit(other, 3, [callback(folder, every_steps=4, delta_every=3, keep=2)])
    assert names(folder) == ["step-000000008", "step-000000009-delta", "step-000000012"]
    np.testing.assert_allclose(rows_of(other), rows_of(whole), rtol=1e-5)


class Cut(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if accumulation(self.model.optimizer)[1] == 7:
            raise KeyboardInterrupt


# With three steps an update the end of the first epoch is between two of them.
@pytest.mark.parametrize(
    ("is_ahead", "accumulate", "every_steps"), [(False, None, 3), (True, None, 3), (False, 3, None)]
)
def test_goes_on_in_the_middle_of_an_epoch(is_ahead, accumulate, every_steps, folder):
    kwargs = {"accumulate": accumulate, "in_graph": is_ahead}
    fit(whole := make_model(**kwargs), 3)
    options = {"every_steps": every_steps}
    with pytest.raises(KeyboardInterrupt):
        fit(make_model(**kwargs), 3, [callback(folder, **options), Cut()], is_ahead)
    other = make_model(seed=5, **kwargs)
    fit(other, 3, [callback(folder, **options)], is_ahead)
    check_same(other, whole)


def check_same(model, other):
    """Checks that they have the same bits."""
    pairs = zip(
        [rows_of(model), *dense_values(model)], [rows_of(other), *dense_values(other)], strict=True
    )
    for ours, theirs in pairs:
        np.testing.assert_array_equal(ours, theirs)


class Send(keras.callbacks.Callback):
    """Sends a signal to the last rank alone, in a call of a hook."""

    def __init__(self, hook, count):
        super().__init__()
        self.count = count
        setattr(self, hook, self.call)

    def call(self, *args, **kwargs):
        self.count -= 1
        if self.count == 0 and ksd.rank() == ksd.size() - 1:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture
def _handler_of_before():
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("_handler_of_before")
@pytest.mark.parametrize(
    ("kwargs", "hook", "count", "batches"),
    [
        ({}, "on_train_batch_begin", 6, 6),
        ({}, "on_train_end", 1, 12),
        ({}, "on_test_batch_begin", 2, 4),
        ({"accumulate": 3}, "on_train_batch_begin", 5, 5),
        ({"in_graph": True, "per_execution": 3}, "on_train_batch_begin", 3, 7),
        ({"in_graph": True}, "on_train_batch_begin", 7, 7),
        ({"in_graph": True}, "on_train_batch_begin", 1, None),
    ],
    ids=["step", "end", "validation", "accumulation", "executions", "lookups ahead", "second"],
)
def test_a_signal_to_one_rank_stops_all(kwargs, hook, count, batches, folder, monkeypatch):
    is_ahead = kwargs == {"in_graph": True}
    if batches is not None:
        monkeypatch.setattr(stop_signal, "_SECONDS", 0)  # ranks agree after each step
    fit(whole := make_model(**kwargs), 3)
    callbacks = [Send(hook, count), callback(folder, keep=1, on_signal="SIGTERM")]
    with pytest.raises(SystemExit) as stopped:
        fit(make_model(**kwargs), 3, callbacks, is_ahead, is_validated=True)
    assert stopped.value.code == 75
    training = CheckpointInfo.read(folder / names(folder)[-1]).training
    trained = training["epoch"] * NUM_STEPS + training["batch"]
    assert batches in (trained, None)
    warns = ksd.rank() == 0 and trained == 3 * NUM_STEPS
    with pytest.warns(match="returns without a step") if warns else contextlib.nullcontext():
        fit(other := make_model(seed=5, **kwargs), 3, [callback(folder)], is_ahead)
    check_same(other, whole)


def test_ranks_resume_at_the_place_that_rank_0_reads(folder, monkeypatch):
    """On other hosts a network file system may show the training dict of before."""

    def load_what_was_there_before(*args, **kwargs):
        info = saving.load_checkpoint(*args, **kwargs)
        assert info.training == {"epoch": 1, "batch": 0, "position": 0}
        before = {"epoch": 0, "batch": 2, "position": 2}
        return info if ksd.rank() == 0 else dataclasses.replace(info, training=before)

    fit(whole := make_model(), 2)
    fit(make_model(), 1, [callback(folder)])
    monkeypatch.setattr(checkpoint, "load_checkpoint", load_what_was_there_before)
    fit(other := make_model(seed=5), 2, [callback(folder)])
    check_same(other, whole)


def test_ranks_with_other_signals_are_refused(folder):
    on_signal = "SIGTERM" if ksd.rank() == 0 else None
    options = {"on_signal": on_signal}
    message = r"`on_signal` of `Checkpoint` must be the same on all ranks.*'SIGTERM'.* on rank 0"
    is_one = ksd.size() == 1
    with contextlib.nullcontext() if is_one else pytest.raises(ValueError, match=message):
        fit(make_model(), 1, [callback(folder, **options)])


def test_a_file_of_keras_has_the_state_of_the_last_update(folder):
    fit(model := make_model(accumulate=3), 1)
    with pytest.warns(match="1 of 3 steps accumulated"):
        model.save_weights(folder / "model.weights.h5")
    other = make_model(seed=5, accumulate=3)
    other.load_weights(folder / "model.weights.h5")
    assert [accumulation(each.optimizer)[1] for each in (model, other)] == [NUM_STEPS, 3]
    np.testing.assert_array_equal(rows_of(other), rows_of(model))


def test_begins_from_what_all_ranks_have_saved_elsewhere(folder):
    fit(whole := make_model(), 2)
    fit(make_model(), 1, [callback(folder / "a")])
    for is_done in (False, True):
        other, begins = make_model(seed=5), callback(folder / "b", begin_from=folder / "a")
        warns = is_done and ksd.rank() == 0
        with pytest.warns(match="returns without a step") if warns else contextlib.nullcontext():
            fit(other, 1, [begins])
        np.testing.assert_array_equal(rows_of(other), rows_of(whole))
    assert names(folder / "b") == ["step-000000008"]
    assert saving.load_checkpoint(other, folder / "a", verbose=False).step == NUM_STEPS


@pytest.mark.parametrize("places", [{}, {"row_slice_threshold": 1}, {"column_slice_threshold": 9}])
def test_is_inspected_as_a_whole(folder, places):
    model = make_model(**places)
    fit(model, 1)
    saving.save_checkpoint(model, folder / "a", verbose=False)
    found = inspect_command.collect(str(folder / "a"))
    assert (found["ranks"], found["step"]) == (ksd.size(), NUM_STEPS)
    assert [each["records"] for each in found["tables"]] == [12, 9, 9]
    assert [each["floats_a_row"] for each in found["tables"]] == [8, 6, 4]  # rows and slots
    assert all(each["are_all_rows"] for each in found["tables"])


@pytest.mark.filterwarnings("ignore:A checkpoint was renamed")
def test_all_ranks_go_back_to_the_last_whole_checkpoint(folder):
    fit(make_model(), 2, [callback(folder)])
    if ksd.rank() == 0:
        before = {each.name for each in folder.glob("step-000000004/**/rows-*.h5")}
        path = next(
            each
            for each in folder.glob("step-000000008/**/*.h5")
            if each.name.startswith("rows-") and each.name not in before
        )
        path.write_bytes(path.read_bytes()[:-8])
    whole, other = make_model(), make_model(seed=5)
    fit(whole, 2)
    fit(other, 2, [callback(folder)])
    expected = ["step-000000004", "step-000000008", "step-000000008.damaged"]
    assert names(folder) == expected
    np.testing.assert_allclose(rows_of(other), rows_of(whole), rtol=1e-5)


def test_a_folder_that_one_rank_does_not_see_is_refused(folder, tmp_path):
    # Each rank's `tmp_path` is another one.
    where = folder if ksd.rank() == 0 else tmp_path
    message = "All ranks must see the folder of a checkpoint: .* Received: a folder that rank 0"
    with pytest.raises(FileNotFoundError, match=message):
        saving.save_checkpoint(make_model(), where / "a", verbose=False)
    assert list(where.iterdir()) == []
    with pytest.raises(FileNotFoundError, match=message):
        fit(make_model(), 1, [callback(where)])
    assert list(where.iterdir()) == []


def test_a_failure_of_one_rank_is_one_of_all(folder, monkeypatch):
    model = make_model()
    fit(model, 1)
    last = ksd.size() - 1

    def fail(*args):
        raise OSError(28, "No space left on device")

    if ksd.rank() == last:
        monkeypatch.setattr(table_writer.TableWriter, "write", fail)
    with pytest.raises(OSError, match="No space left on device"):
        saving.save_checkpoint(model, folder / "a", verbose=False)
    assert names(folder) == []
    monkeypatch.undo()
    saving.save_checkpoint(model, folder / "a", verbose=False)
    with pytest.raises(FileExistsError, match="`path` must be new"):
        saving.save_checkpoint(model, folder / "a", verbose=False)
    assert names(folder) == ["a"]
    if ksd.rank() == last:
        monkeypatch.setattr(sys.modules[saving.save_delta.__module__], "CheckpointReader", fail)
    with pytest.raises(OSError, match="No space left on device"):
        saving.save_delta(model, folder / "b", verbose=False)


def test_a_damaged_part_is_found_by_all_ranks(folder):
    model, other = make_model(), make_model(seed=5)
    fit(model, 1)
    saving.save_checkpoint(model, folder / "a", verbose=False)
    if ksd.rank() == 0:
        path = sorted((folder / "a").glob("**/rows-*.h5"))[-1]
        content = bytearray(path.read_bytes())
        content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
        path.write_bytes(content)
    before = rows_of(other)
    broadcast_object(None, 0, "damaged")
    with pytest.raises(saving.CheckpointDamagedError):
        saving.load_checkpoint(other, folder / "a", verbose=False)
    np.testing.assert_array_equal(rows_of(other), before)


def dense_values(model):
    variables = [*model.variables, *model.optimizer.variables]
    dense = [each for each in variables if not isinstance(each, keras_sparse.EmbeddingVariable)]
    return [np.array(each) for each in dense]


def test_a_rank_that_cannot_load_leaves_all_as_they_were(folder, monkeypatch):
    model, other = make_model(), make_model(seed=5)
    fit(model, 1)
    saving.save_checkpoint(model, folder / "a", verbose=False)
    before = [rows_of(other), *dense_values(other)]

    def fail(*args):
        raise OSError(5, "Input/output error")

    if ksd.rank() == min(1, ksd.size() - 1):
        monkeypatch.setattr(table_loader, "check_fits", fail)
    with pytest.raises(OSError, match="Input/output error"):
        saving.load_checkpoint(other, folder / "a", verbose=False)
    pairs = zip([rows_of(other), *dense_values(other)], before, strict=True)
    is_same = all(np.array_equal(now, then) for now, then in pairs)
    assert gather_objects(is_same, "is_same") == [True] * ksd.size()
    monkeypatch.undo()
    saving.load_checkpoint(other, folder / "a", verbose=False)
    np.testing.assert_array_equal(rows_of(other), rows_of(model))
