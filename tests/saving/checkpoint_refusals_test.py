"""What cannot be saved or loaded is a clear error, and leaves everything as it was."""

import shutil

import keras
import pytest

import keras_sparse
from checkpoint_cases import content
from checkpoint_cases import make_model
from checkpoint_cases import tables
from checkpoint_cases import train
from keras_sparse.saving import checkpoint_writer
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import save_delta


@pytest.fixture
def model():
    model = make_model()
    train(model, 0)
    return model


def test_a_path_is_taken_once(model, tmp_path):
    save_checkpoint(model, tmp_path / "saved")
    for save in (save_checkpoint, save_delta):
        with pytest.raises(FileExistsError, match="`path` must be new"):
            save(model, tmp_path / "saved")


def test_a_delta_needs_a_checkpoint(model, tmp_path):
    with pytest.raises(RuntimeError, match="Call `save_checkpoint` first"):
        save_delta(model, tmp_path / "delta")
    path = save_checkpoint(model, tmp_path / "saved")
    shutil.rmtree(path)
    with pytest.raises(RuntimeError, match="that is not there any more"):
        save_delta(model, tmp_path / "delta")


def test_a_delta_of_a_table_that_was_cleared_is_whole(model, tmp_path):
    save_checkpoint(model, tmp_path / "saved")
    tables(model)[0].clear()
    train(model, 7)
    delta = save_delta(model, tmp_path / "delta")
    load_checkpoint(loaded := make_model(), delta)
    assert content(loaded) == content(model)


def test_a_delta_finds_what_it_goes_back_to(model, tmp_path):
    save_checkpoint(model, tmp_path / "here" / "saved")
    train(model, 1)
    save_delta(model, tmp_path / "here" / "delta")
    (tmp_path / "here").rename(tmp_path / "there")
    load_checkpoint(loaded := make_model(), tmp_path / "there" / "delta")
    assert content(loaded) == content(model)
    shutil.rmtree(tmp_path / "there" / "saved")
    with pytest.raises(FileNotFoundError, match="there is none"):
        load_checkpoint(loaded, tmp_path / "there" / "delta")
    save_checkpoint(model, tmp_path / "there" / "saved")
    with pytest.raises(FileNotFoundError, match="another checkpoint is there"):
        load_checkpoint(loaded, tmp_path / "there" / "delta")


def test_there_must_be_a_checkpoint(model, tmp_path):
    (tmp_path / "file").write_text("no folder")
    for name in ("nothing", "file"):
        with pytest.raises(FileNotFoundError, match="must be a folder with a manifest"):
            load_checkpoint(model, tmp_path / name)


def test_training_meanwhile_is_refused(model, tmp_path, monkeypatch):
    class Training(checkpoint_writer.Progress):
        def close(self):
            train(model, 1)

    monkeypatch.setattr(checkpoint_writer, "Progress", Training)
    with pytest.raises(RuntimeError, match="must not be trained while it is saved"):
        save_checkpoint(model, tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


def test_tables_of_another_shape_are_refused(model, tmp_path):
    path = save_checkpoint(model, tmp_path / "saved")
    inputs = keras.Input((2,), dtype="int64")
    other = keras.Model(inputs, keras_sparse.layers.Embedding(None, 5, "sum")(inputs))
    with pytest.raises(ValueError, match="tables of the same shapes"):
        load_checkpoint(other, path)


def test_what_a_killed_process_left_goes_with_the_next_save(model, tmp_path):
    left = tmp_path / ".saved.0123.partial"
    left.mkdir()
    (left / "model.weights.h5").write_text("half")
    other = tmp_path / ".other.0123.partial"
    other.mkdir()
    save_checkpoint(model, tmp_path / "saved")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other.0123.partial", "saved"]


def test_a_failed_save_leaves_nothing_and_loses_no_change(model, tmp_path, monkeypatch):
    save_checkpoint(model, tmp_path / "saved")
    train(model, 1)
    before = content(model)

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint_writer, "_sync", fail)
    with pytest.raises(OSError, match="No space left"):
        save_delta(model, tmp_path / "delta")
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    assert content(model) == before
    load_checkpoint(loaded := make_model(), save_delta(model, tmp_path / "delta"))
    assert content(loaded) == before
