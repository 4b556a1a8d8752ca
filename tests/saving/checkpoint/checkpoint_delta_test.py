"""A delta holds what has changed since the last save, and nothing else."""

import keras
import numpy as np
import pytest

import keras_sparse
from checkpoint_cases import content
from checkpoint_cases import make_model
from checkpoint_cases import storage
from checkpoint_cases import STORAGE_TYPES
from checkpoint_cases import tables
from checkpoint_cases import train
from checkpoint_cases import train_all_keys
from eviction_cases import ages_of
from keras_sparse.layers import Embedding
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import save_delta
from keras_sparse.saving.checkpoint.checkpoint_reader import CheckpointReader


def keys_of(path):
    """Sorted keys of the rows that each table has in the folder of a delta, with repeats."""
    reader = CheckpointReader(path)
    keys = []
    for table in range(len(reader.manifest.tables)):
        parts = [each for each in reader.parts(table) if each[0] == path.resolve()]
        found = [each for part in parts for each in reader.read_keys(*part)]
        keys.append(sorted(np.concatenate([*found, np.zeros(0, np.int64)]).tolist()))
    return keys


def erased_in(path, table):
    reader = CheckpointReader(path)
    folder, part = reader.parts(table)[-1]
    return sorted(reader.read_erased(folder, part).tolist())


def train_keys(model, keys):
    keys = np.reshape(keys, (-1, 2))
    model.train_on_batch(keys, np.ones((len(keys), 1)))


@pytest.mark.parametrize("storage_type", STORAGE_TYPES)
def test_holds_the_keys_updated_since_the_last_save(storage_type, tmp_path):
    model = make_model(storage(storage_type, tmp_path / "tiers"))
    train_all_keys(model)
    save_checkpoint(model, tmp_path / "first")
    train_keys(model, [7, 2999, 5, 7])
    train_keys(model, [5, 1500])
    assert keys_of(save_delta(model, tmp_path / "1")) == [[5, 7, 1500, 2999]] * 2
    model.predict_on_batch(np.arange(600).reshape(-1, 2))
    assert keys_of(save_delta(model, tmp_path / "2")) == [[], []]
    train_keys(model, [7, 8])
    assert keys_of(save_delta(model, tmp_path / "3")) == [[7, 8]] * 2
    train_keys(model, [9, 10])
    save_checkpoint(model, tmp_path / "whole")
    train_keys(model, [11, 12])
    assert keys_of(save_delta(model, tmp_path / "4")) == [[11, 12]] * 2
    load_checkpoint(loaded := make_model(), tmp_path / "3")
    train_keys(loaded, [13, 14])
    assert keys_of(save_delta(loaded, tmp_path / "5")) == [[13, 14]] * 2


@pytest.mark.parametrize("storage_type", STORAGE_TYPES)
def test_holds_new_rows_and_the_keys_of_those_that_have_gone(storage_type, tmp_path):
    model = make_model(storage(storage_type, tmp_path / "tiers"))
    train_keys(model, np.arange(1000))
    save_checkpoint(model, tmp_path / "first")
    train_keys(model, [2000, 4])
    tables(model)[0].erase([3, 999])
    tables(model)[0].assign([5, 2001], np.ones((2, 4)))
    path = save_delta(model, tmp_path / "delta")
    assert keys_of(path) == [[4, 5, 2000, 2001], [4, 2000]]
    assert erased_in(path, 0) == [3, 999]
    assert erased_in(path, 1) == []
    load_checkpoint(loaded := make_model(), path)
    found = tables(loaded)[0].find([3, 999, 4, 5, 2001])
    assert found.exist.tolist() == [False, False, True, True, True]
    np.testing.assert_array_equal(found.rows[3:], 1)


def test_holds_no_row_that_admission_keeps_out(tmp_path):
    model = make_model(admission=keras_sparse.CounterFilter(2))
    for _ in range(2):
        train_keys(model, np.arange(200))
    save_checkpoint(model, tmp_path / "first")
    train_keys(model, [3, 500])
    assert keys_of(save_delta(model, tmp_path / "1")) == [[3], [3, 500]]
    train_keys(model, [4, 500])
    assert keys_of(save_delta(model, tmp_path / "2")) == [[4, 500]] * 2


def test_holds_no_count_of_a_key_that_is_erased(tmp_path):
    model = make_model(admission=keras_sparse.CounterFilter(3))
    train_keys(model, [3, 4])
    save_checkpoint(model, tmp_path / "first")
    train_keys(model, [3, 500])
    tables(model)[0].erase([3, 7])
    path = save_delta(model, tmp_path / "1")
    load_checkpoint(loaded := make_model(admission=keras_sparse.CounterFilter(3)), path)
    for each in (model, loaded):
        (entries,) = tables(each)[0].table.export_filter(9)
        assert sorted(zip(*map(np.ndarray.tolist, entries), strict=True)) == [(4, 1), (500, 1)]


def test_compact_knows_of_files_that_another_table_would_have_linked(tmp_path):
    keys = keras.Input((), dtype="int64")

    def make(eviction):
        rows = [Embedding(None, 2, eviction=each)(keys) for each in (eviction, None)]
        model = keras.Model(keys, keras.layers.concatenate(rows))
        model.compile(keras_sparse.optimizers.SGD(0.1), loss="mse")
        model.train_on_batch(np.arange(1), np.zeros((1, 4)))
        return model

    row = np.array([[1234.5, -77.25]], np.float32)
    model = make(None)
    tables(model)[0].assign([7], row)
    save_checkpoint(model, tmp_path / "first")
    # Its records are made anew, those of the other table are taken as they lie.
    other = make(keras_sparse.GlobalStepEvict(100))
    load_checkpoint(other, tmp_path / "first")
    tables(other)[0].erase([7])
    save_checkpoint(other, tmp_path / "linked")
    tables(other)[0].compact()
    save_checkpoint(other, tmp_path / "compacted")
    saved = ("first", "linked", "compacted")
    assert [has_bytes(row, tmp_path / name) for name in saved] == [True, True, False]


@pytest.mark.parametrize("storage_type", STORAGE_TYPES)
def test_no_byte_of_an_erased_row_is_in_a_checkpoint_without_links_or_after_compact(
    storage_type, tmp_path
):
    model = make_model(storage(storage_type, tmp_path / "tiers"))
    dynamic = tables(model)[0]
    row = np.array([[1234.5, -77.25, 0.125, 3e-9]], np.float32)
    dynamic.assign([-1], row)
    train_keys(model, np.arange(2000))  # it goes down to the last tier
    save_checkpoint(model, tmp_path / "first")
    assert has_bytes(row, tmp_path / "tiers") == (storage_type not in (None, "HBM_DRAM"))
    dynamic.erase([-1])
    save_checkpoint(model, tmp_path / "linked")
    save_checkpoint(model, tmp_path / "anew", links=False)
    save_checkpoint(model, tmp_path / "linked again")
    dynamic.compact()
    assert not has_bytes(row, tmp_path / "tiers")
    train_keys(model, [7, 8])
    save_delta(model, tmp_path / "delta")
    save_checkpoint(model, tmp_path / "compacted")
    train_keys(model, [9, 10])
    save_checkpoint(model, tmp_path / "next")
    saved = ("first", "linked", "anew", "linked again", "delta", "compacted", "next")
    # Files of the tiers had it still.
    has_again = storage_type is not None and "SSDHASH" in storage_type
    assert [has_bytes(row, tmp_path / name) for name in saved] == [
        True,
        True,
        False,
        has_again,
        False,
        False,
        False,
    ]
    compacted = next((tmp_path / "compacted").glob("rows-*"))
    assert (tmp_path / "next" / compacted.name).samefile(compacted)
    for name in ("delta", "next"):
        load_checkpoint(loaded := make_model(), tmp_path / name)
        if name == "next":
            assert content(loaded) == content(model)
        assert not tables(loaded)[0].contains([-1]).any()


def has_bytes(row, folder):
    paths = (path for path in folder.rglob("*") if path.is_file())
    return any(row.tobytes() in path.read_bytes() for path in paths)


@pytest.mark.parametrize("path", ["saved", "loaded", "delta"])
def test_no_file_is_linked_that_a_compacted_table_had_rows_in(path, tmp_path):
    model = make_model()
    train_keys(model, np.arange(100))
    save_checkpoint(model, tmp_path / "first")
    if path == "loaded":
        load_checkpoint(model := make_model(), tmp_path / "first")
    if path == "delta":
        train_keys(model, [5, 6])
        save_delta(model, tmp_path / "1")
    tables(model)[1].compact()  # its file has rows of the other table too
    if path == "delta":
        train_keys(model, [7, 8])
        assert keys_of(save_delta(model, tmp_path / "2")) == [[7, 8]] * 2
    save_checkpoint(model, tmp_path / "second")
    assert all(each.stat().st_nlink == 1 for each in (tmp_path / "second").iterdir())
    save_checkpoint(model, tmp_path / "third")
    assert any(each.stat().st_nlink == 2 for each in (tmp_path / "third").iterdir())
    load_checkpoint(loaded := make_model(), tmp_path / "third")
    assert content(loaded) == content(model)


# Rows that a policy lets go at a save stay away in every checkpoint and delta after it.
def ages(model):
    return ages_of(tables(model)[0])


@pytest.mark.slow("long history")
def test_evicted_rows_stay_away(tmp_path):
    options = {"optimizer": "Adam", "eviction": keras_sparse.GlobalStepEvict(3)}
    options["admission"] = keras_sparse.CounterFilter(2)
    model = make_model(storage("DRAM_SSDHASH", tmp_path / "tiers"), **options)
    for _ in range(2):
        train_all_keys(model)
    saved = {save_checkpoint(model, tmp_path / "first"): (content(model), ages(model))}
    assert len(ages(model)) == 3000
    for step in range(6):
        train(model, step, 200)
        save = save_checkpoint if step == 4 else save_delta
        path = save(model, tmp_path / str(step))
        saved[path] = (content(model), ages(model))
    assert 300 < len(ages(model)) < 2000
    for path, (rows, their_ages) in saved.items():
        loaded = make_model(storage("DRAM_SSDHASH", tmp_path / f"of {path.name}"), **options)
        load_checkpoint(loaded, path)
        assert content(loaded) == rows
        assert ages(loaded) == their_ages
    for each in (model, loaded):
        train(each, 9, 200)
        tables(each)[0].evict()
    assert content(loaded) == content(model)
