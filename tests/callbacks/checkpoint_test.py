import functools
import shutil

import keras
import pytest

import checkpoint_cases
import keras_sparse
from checkpoint_cases import content
from checkpoint_cases import fit
from checkpoint_cases import IDS
from checkpoint_cases import names
from checkpoint_cases import tables
from keras_sparse.callbacks import Checkpoint
from keras_sparse.saving import CheckpointInfo
from keras_sparse.saving import save_checkpoint
from pairwise import each_pair

# Of tens of steps, which take longer than to compile one.
make_model = functools.partial(checkpoint_cases.make_model, run_eagerly=False)


class PowerCut(keras.callbacks.Callback):
    def __init__(self, step):
        super().__init__()
        self.step = step

    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations) == self.step:
            raise KeyboardInterrupt


DELTAS = {"every_steps": 8, "delta_every": 3}


@pytest.mark.parametrize(
    ("options", "epochs", "saved"),
    [
        ({}, 2, ["10", "20"]),
        (DELTAS, 1, ["03", "06-delta", "08", "09-delta", "10"]),  # the first delta is a checkpoint
        ({**DELTAS, "keep": 2}, 2, ["16", "18-delta", "20"]),
    ],
    ids=["epochs", "deltas", "few"],
)
def test_saves_when_it_is_told_to_and_removes_old_ones(options, epochs, saved, tmp_path):
    fit(make_model(), [Checkpoint(tmp_path, **options)], epochs=epochs)
    assert names(tmp_path) == [f"step-0000000{each}" for each in saved]


@pytest.mark.parametrize("links", [True, False])
def test_links_files_unless_told_not_to(links, tmp_path):
    storage = keras_sparse.StorageOption("DRAM_SSDHASH", tmp_path / "tiers", [4096])
    options = {"every_steps": 10, "delta_every": 4, "links": links}
    fit(make_model(storage), [Checkpoint(tmp_path / "run", **options)], epochs=2)
    paths = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert any(path.stat().st_nlink > 1 for path in paths) == links
    assert any("delta" in str(path) for path in paths)


@functools.cache
def content_of_uncut():
    fit(model := make_model(), epochs=2)
    return content(model)


@each_pair(
    options=[{"every_steps": 10, "delta_every": 3}, {}],
    step=[19, 10, 14],
    tiers=["DRAM_SSDHASH", None],
)
def test_goes_on_where_it_was_cut_off(options, step, tiers, tmp_path):
    storage = tiers and keras_sparse.StorageOption(tiers, tmp_path / "tiers", [4096])
    tmp_path = tmp_path / "run"
    cut = make_model(storage)
    with pytest.raises(KeyboardInterrupt):
        fit(cut, [Checkpoint(tmp_path, **options), PowerCut(step)])
    resumed = make_model(storage)
    fit(resumed, [Checkpoint(tmp_path, **options)], epochs=2)
    assert all(tier["rows"] > 0 for tier in tables(resumed)[0].stats()["tiers"].values())
    assert content(resumed) == content_of_uncut()


def test_a_finished_training_is_not_done_again(tmp_path):
    model = make_model()
    fit(model, [Checkpoint(tmp_path)], epochs=1)
    for _ in range(2):
        again = make_model()
        with pytest.warns(match="`fit` returns without a step.*another `path` and `begin_from="):
            history = fit(again, [Checkpoint(tmp_path)], epochs=1)
        assert history.epoch == []
        assert content(again) == content(model)
    shutil.rmtree(tmp_path / "step-000000010")
    fit(again, [Checkpoint(tmp_path, every_steps=7)], epochs=1)
    assert int(again.optimizer.iterations) == 20


def test_a_second_fit_of_a_model_goes_on_with_it(tmp_path):
    model = make_model()
    callback = Checkpoint(tmp_path)
    for _ in range(2):
        fit(model, [callback], epochs=1)
    expected = make_model()
    fit(expected, epochs=2)
    assert content(model) == content(expected)
    assert names(tmp_path) == ["step-000000010", "step-000000020"]


@pytest.mark.filterwarnings("ignore:Skipping variable loading for optimizer")  # Keras' own
@pytest.mark.filterwarnings("ignore:The slots saved with")
def test_another_optimizer_goes_on_counting(tmp_path):
    fit(make_model(), [Checkpoint(tmp_path, keep=2)], epochs=1)
    other = make_model(optimizer="SGD")
    fit(other, [Checkpoint(tmp_path, keep=2, delta_every=4)], epochs=2)
    assert int(other.optimizer.iterations) == 20
    saved = [f"step-0000000{each}" for each in ("10", "12", "16-delta", "20-delta")]
    assert names(tmp_path) == saved


def test_a_model_that_counts_anew_is_refused_by_the_same_callback(tmp_path):
    model, callback = make_model(), Checkpoint(tmp_path)
    fit(model, [callback], epochs=1)
    model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse", run_eagerly=True)
    with pytest.raises(ValueError, match="compiled again counts its steps anew"):
        fit(model, [callback], epochs=1)


def test_deltas_go_back_to_the_callbacks_own_checkpoints(tmp_path):
    class Elsewhere(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 4:
                save_checkpoint(self.model, tmp_path / "elsewhere")

    fit(make_model(), [Elsewhere(), Checkpoint(tmp_path / "own", delta_every=3)], epochs=1)
    saved = [f"step-0000000{each}" for each in ("03", "06", "09-delta", "10")]
    assert names(tmp_path / "own") == saved


def test_steps_per_execution_do_not_confuse_the_epoch(tmp_path):
    model = make_model(run_eagerly=False, steps_per_execution=4)
    fit(model, [Checkpoint(tmp_path, every_steps=4)], epochs=1)
    saved = [CheckpointInfo.read(tmp_path / names(tmp_path)[i]).training for i in (0, -1)]
    assert saved[0] == {"epoch": 0, "batch": 4, "position": 4}
    assert saved[1] == {"epoch": 1, "batch": 0, "position": 0}


def test_a_later_fit_begins_where_it_is_told(tmp_path):
    fit(make_model(), [Checkpoint(tmp_path)], epochs=1)
    resumed = make_model()
    fit(resumed, [Checkpoint(tmp_path)], epochs=2)
    assert fit(resumed, epochs=1).epoch == [0]


def test_what_is_evicted_after_the_last_save_is_saved(tmp_path):
    class Erase(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 9:
                keras_sparse.ops.erase_rows([tables(self.model)[0]], [IDS[0]])

    model = make_model()
    fit(model, [Checkpoint(tmp_path, every_steps=10), Erase()], epochs=1)
    assert names(tmp_path) == ["step-000000010", "step-000000010-delta"]
    resumed = make_model()
    with pytest.warns(match="returns without a step"):
        fit(resumed, [Checkpoint(tmp_path, every_steps=10)], epochs=1)
    assert content(resumed) == content(model)


def test_bad_arguments_are_refused(tmp_path):
    with pytest.raises(ValueError, match="`delta_every` must be below `every_steps`"):
        Checkpoint(tmp_path, every_steps=5, delta_every=5)
    with pytest.raises(ValueError, match="`every_steps` must be"):
        Checkpoint(tmp_path, every_steps=0)
    with pytest.raises(ValueError, match="`keep` must be"):
        Checkpoint(tmp_path, keep=0)
    with pytest.raises(ValueError, match=r"`path` must be a path that is not.* Received: path=''"):
        Checkpoint("")
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(NotADirectoryError, match=r"`path` must be a folder.*/file' is a file"):
            Checkpoint(path)
    fit(make_model(), [Checkpoint(tmp_path)], epochs=1)
    with pytest.raises(ValueError, match="without checkpoints if `resume` is off"):
        fit(make_model(), [Checkpoint(tmp_path, resume=False)], epochs=1)
