"""A training begins from the checkpoint of another one, and data from the batch it goes on with."""

import functools
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import checkpoint_cases
import keras_sparse
from checkpoint_cases import batches
from checkpoint_cases import content
from checkpoint_cases import dataset_of
from checkpoint_cases import names
from keras_sparse import saving
from keras_sparse.callbacks import Checkpoint
from keras_sparse.saving import latest_checkpoint

make_model = functools.partial(checkpoint_cases.make_model, optimizer="Adam")
IDS, TARGETS = checkpoint_cases.IDS, checkpoint_cases.TARGETS


class Kill(keras.callbacks.Callback):
    def __init__(self, after):
        super().__init__()
        self.after = after

    def on_train_batch_end(self, batch, logs=None):
        if batch + 1 == self.after:
            raise KeyboardInterrupt


def fit(model, day, callbacks=(), epochs=1):
    """Ten steps on the data of a day."""
    ids, targets = (IDS + 500 * day) % checkpoint_cases.NUM_KEYS, TARGETS * (day + 1)
    options = {"shuffle": False, "verbose": 0, "callbacks": callbacks}
    return model.fit(ids, targets, 8, epochs=epochs, **options)


@pytest.mark.parametrize(
    "kills", [(), pytest.param((1, 3, 4, 9), marks=pytest.mark.slow("long history"))]
)
def test_each_day_goes_on_with_the_model_of_the_day_before(kills, tmp_path, capsys):
    expected, counts, days = make_model(), [], 3 if kills else 2
    for day in range(days):
        fit(expected, day)
        before = tmp_path / str(day - 1) if day else None
        make = functools.partial(Checkpoint, tmp_path / str(day), 4, delta_every=2)
        for kill in kills:
            with pytest.raises(KeyboardInterrupt):
                fit(make_model(), day, [make(begin_from=before), Kill(kill)])
        fit(model := make_model(), day, [make(begin_from=before)])
        assert content(model) == content(expected)
        counts.append(capsys.readouterr().out.count("Starting from"))
    num_begun = 1 + kills.count(1)  # nothing was saved then
    assert counts == [0, *[num_begun] * (days - 1)]
    with pytest.warns(match=f"begin_from='.*{days - 1}'"):
        fit(model := make_model(), 7, [make(begin_from=before)])
    assert content(model) == content(expected)
    assert names(tmp_path / "0")[0] == "step-000000002"
    assert saving.load_checkpoint(model, tmp_path / "0").step == 10
    assert saving.verify(tmp_path / "1") == 2


def test_a_model_in_use_goes_on_to_the_next_day_and_back(tmp_path):
    fit(model := make_model(), 0, [Checkpoint(tmp_path / "0")])
    server = make_model()
    saving.load_checkpoint(server, tmp_path / "0")
    monday = content(server)
    callback = Checkpoint(tmp_path / "1", 5, begin_from=tmp_path / "0")
    fit(model := make_model(), 1, [callback])
    info = saving.apply_delta(server, tmp_path / "1")  # refuses what it must load as a whole
    assert (info.step, info.path.name) == (20, "step-000000020")
    assert content(server) == content(model)
    with saving.follow(server, tmp_path / "0") as follower:
        assert follower.step == 10
        assert content(server) == monday


def test_what_it_begins_from_must_be_there_and_elsewhere(tmp_path):
    for begin_from in (tmp_path, tmp_path / "step-000000010"):
        with pytest.raises(ValueError, match="must be in another folder than `path`"):
            Checkpoint(tmp_path, begin_from=begin_from)
    with pytest.raises(TypeError, match="begin_from"):
        Checkpoint(tmp_path, begin_from=3)
    with pytest.raises(FileNotFoundError, match="must be a folder with a manifest"):
        fit(make_model(), 0, [Checkpoint(tmp_path / "a", begin_from=tmp_path / "none")])


def test_a_model_that_was_loaded_by_hand_is_not_where_the_data_is(tmp_path):
    make = functools.partial(Checkpoint, tmp_path, 4)
    with pytest.raises(KeyboardInterrupt):
        fit(make_model(), 0, [make(), Kill(6)])
    saving.load_checkpoint(model := make_model(), tmp_path)
    with pytest.warns(match=r"begins with the first batch.*step-000000004, saved after 4 batches"):
        fit(model, 0, [make()])


def test_the_latest_checkpoint_is_the_last_whole_one(tmp_path):
    assert latest_checkpoint(tmp_path / "none") is None
    assert not (tmp_path / "none").exists()
    assert latest_checkpoint(tmp_path) is None
    fit(model := make_model(), 0, [Checkpoint(tmp_path, 6, delta_every=3)])
    assert latest_checkpoint(str(tmp_path)) == tmp_path / "step-000000010"
    assert saving.CheckpointInfo.read(tmp_path).step == 10
    (tmp_path / "step-000000010" / "model.weights.h5").unlink()
    with pytest.warns(match="was skipped"):
        assert latest_checkpoint(tmp_path) == tmp_path / "step-000000009-delta"
    with pytest.raises(saving.CheckpointDamagedError):
        saving.verify(tmp_path)
    shutil.rmtree(tmp_path / "step-000000006")  # which the delta goes back to
    with pytest.warns(match="was skipped"):
        assert saving.load_checkpoint(model, tmp_path).step == 3


def endless(checkpoint):
    """tf.data begins while a step runs."""
    return dataset_of(lambda: batches(checkpoint.first_batch, number=99)).prefetch(2)


def generator(checkpoint):
    """Keras takes the first batch before `fit` begins to train."""
    return batches(checkpoint.first_batch, number=99)


def of_known_length(checkpoint):
    """It knows how much of it is left."""
    left = 12 - checkpoint.first_batch
    return endless(checkpoint).take(left).apply(tf.data.experimental.assert_cardinality(left))


@pytest.mark.parametrize(
    ("data", "steps"),
    [(endless, None), (endless, 3), (generator, 3), (of_known_length, None)],
)
def test_data_begins_with_the_batch_that_comes_next(data, steps, tmp_path):
    def make():
        model = make_model(compiled=False)
        optimizer = keras_sparse.optimizers.Adagrad(0.1, gradient_accumulation_steps=steps)
        model.compile(optimizer, loss="mse", run_eagerly=(data, steps) != (endless, None))
        optimizer.build(model.trainable_variables)
        return model

    arguments = {"epochs": 3, "steps_per_epoch": 4, "verbose": 0, "shuffle": False}
    make_callback = functools.partial(Checkpoint, every_steps=1, skip_batches=False)
    expected = make()
    expected.fit(data(make_callback(tmp_path / "other")), **arguments)
    for kill in (2, 3, None):
        callback = make_callback(tmp_path / "run")
        callbacks = [callback] if kill is None else [callback, Kill(kill)]
        try:
            (model := make()).fit(data(callback), **arguments, callbacks=callbacks)
        except KeyboardInterrupt:
            assert kill is not None
    assert content(model) == content(expected)


@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # Keras' own
def test_data_that_begins_anew_with_each_epoch_does_so(tmp_path):
    begun = []

    def generate():
        begun.append(callback.first_batch)
        rest = [np.split(each, 10)[begun[-1] :] for each in (IDS, TARGETS)]
        yield from zip(*rest, strict=True)

    data = dataset_of(generate)
    for kill in (7, None):
        callback = Checkpoint(tmp_path, every_steps=5, skip_batches=False)
        callbacks = [callback] if kill is None else [callback, Kill(kill)]
        try:
            model = make_model()
            model.fit(data, epochs=2, shuffle=False, verbose=0, callbacks=callbacks)
        except KeyboardInterrupt:
            assert kill
    assert begun == [0, 5, 0]
    assert int(model.optimizer.iterations) == 20


def test_data_that_began_elsewhere_is_refused(tmp_path):
    fit(make_model(), 0, [Checkpoint(tmp_path, 4)])
    callback = Checkpoint(tmp_path, 4)
    assert callback.first_batch == 0  # of the next epoch
    (tmp_path / "step-000000010" / "manifest.json").unlink()
    callback = Checkpoint(tmp_path, 4)
    assert callback.first_batch == 8
    (file,) = (tmp_path / "step-000000008").glob("model.*")
    file.write_bytes(bytes(file.stat().st_size))
    with (
        pytest.warns(UserWarning, match="was renamed"),
        pytest.raises(RuntimeError, match="first_batch=8, training resumes with 4"),
    ):
        fit(make_model(), 0, [callback])
    assert "step-000000008.damaged" in names(tmp_path)
