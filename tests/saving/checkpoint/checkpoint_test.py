"""A checkpoint brings back everything, and costs what has changed."""

import functools
import os
import shutil

import numpy as np
import pytest

import keras_sparse
from checkpoint_cases import content
from checkpoint_cases import make_model
from checkpoint_cases import NUM_KEYS
from checkpoint_cases import storage
from checkpoint_cases import STORAGE_TYPES
from checkpoint_cases import tables
from checkpoint_cases import train
from checkpoint_cases import train_all_keys
from eviction_cases import ages_of
from keras_sparse import saving
from keras_sparse.optimizers import AdagradDecay
from keras_sparse.optimizers import AdamAsync
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import save_delta
from optimizer_cases import CLASSES
from optimizer_cases import PLAIN_ADAM


def trained_model(storage=None, **options):
    model = make_model(storage, **options)
    train_all_keys(model)
    train(model, 0)
    return model


@pytest.mark.parametrize("storage_type", STORAGE_TYPES)
def test_brings_everything_back_over_any_tiers(storage_type, tmp_path, monkeypatch):
    # A segment is read in several pieces.
    monkeypatch.setattr(f"{saving.__name__}.checkpoint.checkpoint_reader.CHUNK_BYTES", 4096)
    model = trained_model(storage(storage_type, tmp_path / "tiers"))
    assert all(tier["rows"] > 0 for tier in tables(model)[0].stats()["tiers"].values())
    path = save_checkpoint(model, tmp_path / "saved")
    is_linked = storage_type == "DRAM_SSDHASH"
    # Whatever it was saved from, into memory, segments that are linked, and the same.
    for other in STORAGE_TYPES if is_linked else {None, "DRAM_SSDHASH", storage_type}:
        loaded = make_model(storage(other, tmp_path / f"other {other}"))
        info = load_checkpoint(loaded, path)
        assert (info.path, info.step, info.is_delta) == (path, 2, False)
        assert content(loaded) == content(model)
        train(loaded, 1)
    train(model, 1)
    assert content(loaded) == content(model)


QUICK_TYPES = [None, "DRAM_SSDHASH"]
LONG = pytest.mark.slow("long history")


@pytest.mark.parametrize(
    "storage_type",
    [
        *QUICK_TYPES,
        *(pytest.param(each, marks=LONG) for each in STORAGE_TYPES if each not in QUICK_TYPES),
    ],
)
def test_any_sequence_of_checkpoints_deltas_and_loads_is_right(storage_type, tmp_path):
    """Every one that was saved on the way loads to what the model was then."""
    rng = np.random.default_rng(len(str(storage_type)))
    models = [trained_model(storage(storage_type, tmp_path / "0"))]
    expected = {save_checkpoint(models[0], tmp_path / "first"): content(models[0])}
    for step in range(30):
        model = models[-1]
        action = rng.integers(6)
        if action < 2:
            train(model, step, num_samples=int(rng.choice([4, 400])))
        elif action == 2:
            keras_sparse.ops.erase_rows([tables(model)[0]], [rng.integers(0, 3000, 40)])
        elif action == 3:
            expected[save_checkpoint(model, tmp_path / f"full-{step}")] = content(model)
        elif action == 4:
            expected[save_delta(model, tmp_path / f"delta-{step}")] = content(model)
        else:
            path = list(expected)[rng.integers(len(expected))]
            models.append(make_model(storage(storage_type, tmp_path / str(step))))
            load_checkpoint(models[-1], path)
    for path, saved in expected.items():
        loaded = make_model()
        load_checkpoint(loaded, path)
        assert content(loaded) == saved, path


def model_of(case, storage=None):
    model = make_model(storage, compiled=False)
    model.compile(case.make(), loss="mse", run_eagerly=True)
    model.optimizer.build(model.trainable_variables)
    return model


# Optimizers that move rows, or their slots, without a gradient, and one that counts steps by table.
MISSING = [case for case in CLASSES if case.catches_up or case.ours in (AdagradDecay, AdamAsync)]


@pytest.mark.parametrize("case", [*MISSING, PLAIN_ADAM], ids=lambda case: case.name)
def test_rows_that_have_missed_steps_make_up_for_them(case, tmp_path):
    """Also those of the first checkpoint, by the time of the last delta."""
    rate = case.arguments["learning_rate"]
    tiers = storage("DRAM_SSDHASH", tmp_path / "tiers")
    model, never_saved = (model_of(case, each) for each in (tiers, None))
    train_all_keys(model)
    save_checkpoint(model, tmp_path / "first")
    for seed in range(2):
        train(model, seed)
        model.optimizer.learning_rate = rate / (seed + 2)
        save_delta(model, tmp_path / f"delta-{seed}")
    last = save_checkpoint(model, tmp_path / "last")
    train_all_keys(never_saved)
    for seed in range(2):
        train(never_saved, seed)
        never_saved.optimizer.learning_rate = rate / (seed + 2)
    whole = functools.partial(content, chunk_rows=NUM_KEYS)
    expected = whole(never_saved)
    assert whole(model) == expected
    train(never_saved, 4, num_samples=800)
    later = whole(never_saved)
    loaded = [model_of(case, storage("DRAM_SSDHASH", tmp_path / name)) for name in "ab"]
    for each, path in zip(loaded, (last, tmp_path / "delta-1"), strict=True):
        load_checkpoint(each, path)
    loaded.append(model_of(case))
    load_checkpoint(loaded[-1], save_checkpoint(loaded[1], tmp_path / "again"))
    for each in loaded:
        assert whole(each) == expected
        train(each, 4, num_samples=800)
        assert whole(each) == later


def inodes(paths):
    return {path.stat().st_ino for path in paths}


def test_a_second_checkpoint_links_what_has_not_changed(tmp_path):
    model = trained_model(storage("DRAM_SSDHASH", tmp_path / "tiers"))
    # Alike for long: TensorFlow knows an eager op again by the beginnings of its attributes.
    folder = tmp_path / ("long" * 20)
    first = save_checkpoint(model, folder / "first")
    train(model, 1, num_samples=2)
    tables(model)[0].stats()  # waits for what the background writes
    second = save_checkpoint(model, folder / "second")
    segments = inodes((tmp_path / "tiers").rglob("*.seg"))
    assert len(segments & inodes(first.iterdir())) > 1
    (old_rows,) = inodes(first.glob("rows-*"))
    assert {*segments, old_rows} <= inodes(second.iterdir())
    new = [path for path in second.iterdir() if path.stat().st_nlink == 1]
    assert sorted(path.name.partition("-")[0] for path in new) == [
        "manifest.json",
        "model.weights.h5",
        "rows",
    ]
    sizes = [sum(path.stat().st_size for path in each) for each in (new, first.iterdir())]
    assert sizes[0] < sizes[1] / 4


def test_an_old_checkpoint_may_be_removed(tmp_path):
    model = trained_model(storage("DRAM_SSDHASH", tmp_path / "tiers"))
    first = save_checkpoint(model, tmp_path / "first")
    train(model, 1)
    second = save_checkpoint(model, tmp_path / "second")
    expected = content(model)
    shutil.rmtree(first)
    train_all_keys(model)
    third = save_checkpoint(model, tmp_path / "third")
    shutil.rmtree(second)
    shutil.rmtree(tmp_path / "tiers")
    loaded = make_model()
    load_checkpoint(loaded, third)
    assert content(loaded)[1:] != expected[1:]
    assert content(loaded) == content(model)


def test_a_checkpoint_lies_on_another_file_system_than_the_tiers(tmp_path, monkeypatch):
    def refuse(source, target):
        raise OSError(18, "Invalid cross-device link", source)

    memory = "/dev/shm"
    other = os.path.isdir(memory) and os.stat(memory).st_dev != os.stat(tmp_path).st_dev
    if not other:
        pytest.skip("there is one file system")
    tiers = f"{memory}/keras_sparse-{os.getpid()}"
    model = trained_model(storage("DRAM_SSDHASH", tiers))
    save_checkpoint(model, tmp_path / "first")
    assert not [path for path in (tmp_path / "first").iterdir() if path.suffix == ".seg"]
    train(model, 1)
    linked = save_checkpoint(model, tmp_path / "second")
    train(model, 2)
    monkeypatch.setattr(os, "link", refuse)
    copied = save_checkpoint(model, tmp_path / "third")
    assert len(list(copied.iterdir())) == 3
    assert len(list(linked.iterdir())) == 4
    loaded = make_model()
    load_checkpoint(loaded, copied)
    assert content(loaded) == content(model)


def test_many_changes_make_a_new_whole_copy(tmp_path):
    """What is linked from old checkpoints does not grow for ever."""
    model = trained_model()
    sizes = []
    for i in range(8):
        path = save_checkpoint(model, tmp_path / str(i))
        sizes.append(sum(file.stat().st_size for file in path.iterdir()))
        train_all_keys(model)
    assert max(sizes) < 4 * sizes[0]


def test_a_table_of_another_policy_takes_rows_and_ages_of(tmp_path):
    model = make_model(eviction=keras_sparse.GlobalStepEvict(100))
    train_all_keys(model)
    train(model, 1)
    path = save_checkpoint(model, tmp_path / "saved")
    plain = make_model()
    load_checkpoint(plain, path)
    assert content(plain) == content(model)
    other = make_model(eviction=keras_sparse.GlobalStepEvict(5))
    load_checkpoint(other, path)
    assert ages_of(tables(other)[0]) == ages_of(tables(model)[0])
    back = make_model(eviction=keras_sparse.GlobalStepEvict(5))
    load_checkpoint(back, save_checkpoint(plain, tmp_path / "plain"))
    assert content(back) == content(model)
    assert set(ages_of(tables(back)[0]).values()) == {0}
    assert len(ages_of(tables(back)[0])) == 3000
