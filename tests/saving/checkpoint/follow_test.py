"""A model in use follows a training that goes on."""

import shutil
import threading

import pytest

import keras_sparse
from checkpoint_cases import content
from checkpoint_cases import fit
from checkpoint_cases import make_model
from checkpoint_cases import tables
from checkpoint_cases import train
from checkpoint_cases import train_all_keys
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import save_delta
from keras_sparse.saving.checkpoint import follow as follow_module
from keras_sparse.serving import follow


def test_follows_a_folder(tmp_path):
    trained = make_model()
    checkpoint = keras_sparse.callbacks.Checkpoint(
        tmp_path / "run", every_steps=20, delta_every=5, keep=1, verbose=False
    )

    fit(trained, [checkpoint], epochs=1)
    followed = make_model()
    lock = threading.Lock()
    with follow(followed, tmp_path / "run", every=0.05, lock=lock) as follower:
        assert follower.step == 10
        assert content(followed)[0] == content(trained)[0]
        with lock:  # who holds it sees nothing change
            fit(trained, [checkpoint], epochs=4)
            assert follower.step == 10
        for _ in range(200):
            if follower.step == 50:
                break
            threading.Event().wait(0.05)
        assert follower.step == 50
        assert follower.error is None
        assert content(followed) == content(trained)
    with pytest.raises(FileNotFoundError, match="must exist"):
        follow(followed, tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="without a whole one"):
        follow(make_model(), tmp_path / "empty")
    with pytest.raises(ValueError, match="`every` must be above 0"):
        follow(followed, tmp_path / "run", every=0)


def test_passes_by_what_is_damaged(tmp_path):
    trained = make_model()
    train_all_keys(trained)
    save_checkpoint(trained, tmp_path / "step-000000001")
    followed = make_model()
    follower = keras_sparse.saving.Follower(followed, tmp_path)
    assert follower.look()
    train(trained, 1)
    delta = save_delta(trained, tmp_path / "step-000000002-delta")
    (file,) = delta.glob("rows-*.h5")
    content_of_file = file.read_bytes()
    file.unlink()  # later checkpoints link it
    file.write_bytes(content_of_file[:-1])
    before = content(followed)
    with pytest.warns(UserWarning, match="A damaged checkpoint was skipped"):
        assert not follower.look()
    assert not follower.look()  # said once
    assert content(followed) == before
    file.write_bytes(content_of_file)  # as a copy does that goes on
    assert follower.look()
    assert content(followed) == content(trained)
    load_checkpoint(trained, tmp_path / "step-000000001")
    for number in range(2):
        train(trained, number)
    save_checkpoint(trained, tmp_path / "step-000000003")
    assert follower.look()
    assert follower.step == 3
    assert content(followed) == content(trained)


def test_begins_with_the_last_state_of_the_folder_and_goes_back_with_it(tmp_path):
    trained = make_model()
    train_all_keys(trained)
    save_checkpoint(trained, tmp_path / "run" / "step-000000001")
    followed = make_model()
    train_all_keys(followed)
    train(followed, 1)
    save_checkpoint(followed, tmp_path / "elsewhere")
    load_checkpoint(followed, tmp_path / "elsewhere")  # further than the folder
    follower = keras_sparse.saving.Follower(followed, tmp_path / "run")
    assert follower.look()
    assert content(followed) == content(trained)
    followed.layers[-1].bias.assign([5.0])
    assert keras_sparse.saving.Follower(followed, tmp_path / "run").look()
    assert content(followed) == content(trained)
    train(trained, 1)
    path = save_checkpoint(trained, tmp_path / "run" / "step-000000002")
    assert follower.look()
    load_checkpoint(trained, tmp_path / "run" / "step-000000001")
    train(trained, 2)
    shutil.rmtree(path)
    save_checkpoint(trained, tmp_path / "run" / "step-000000002")
    assert follower.look()
    assert content(followed) == content(trained)
    shutil.rmtree(path)
    assert follower.look()
    assert follower.step == 1


def test_what_goes_while_it_is_loaded_leaves_no_half_of_it(tmp_path, monkeypatch):
    trained = make_model()
    train_all_keys(trained)
    save_checkpoint(trained, tmp_path / "step-000000001")
    followed = make_model()
    follower = keras_sparse.saving.Follower(followed, tmp_path)
    assert follower.look()
    other = make_model()
    for number in range(2):
        train(other, number)
    path = save_checkpoint(other, tmp_path / "step-000000002")
    load = follow_module.load_checkpoint

    def removed_meanwhile(model, loaded, **options):
        for table in tables(model):
            table.clear()
        if loaded == path:
            shutil.rmtree(path)
        return load(model, loaded, **options)

    monkeypatch.setattr(follow_module, "load_checkpoint", removed_meanwhile)
    follower.look()
    monkeypatch.undo()
    assert not path.exists()
    follower.look()
    assert follower.step == 1
    assert content(followed) == content(trained)
