"""Rows that a policy lets go at a save stay away in every checkpoint and delta after it."""

import pytest

import keras_sparse
from checkpoint_cases import content
from checkpoint_cases import make_model
from checkpoint_cases import storage
from checkpoint_cases import tables
from checkpoint_cases import train
from checkpoint_cases import train_all_keys
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import save_delta


def ages(model):
    """`{key: age}` of the dynamic table."""
    return {
        key: age
        for keys, _, ages in tables(model)[0].export(with_ages=True)
        for key, age in zip(keys.tolist(), ages.tolist(), strict=True)
    }


@pytest.mark.parametrize("optimizer", ["Adagrad", "Adam"])
@pytest.mark.parametrize("storage_type", [None, "DRAM_SSDHASH"])
def test_evicted_rows_stay_away(storage_type, optimizer, tmp_path):
    options = {"optimizer": optimizer, "eviction": keras_sparse.GlobalStepEvict(3)}
    options["admission"] = keras_sparse.CounterFilter(2)
    model = make_model(storage(storage_type, tmp_path / "tiers"), **options)
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
        loaded = make_model(storage(storage_type, tmp_path / f"of {path.name}"), **options)
        load_checkpoint(loaded, path)
        assert content(loaded) == rows
        assert ages(loaded) == their_ages
    for each in (model, loaded):
        train(each, 9, 200)
        tables(each)[0].evict()
    assert content(loaded) == content(model)


def test_a_table_of_another_policy_takes_rows_and_ages(tmp_path):
    model = make_model(eviction=keras_sparse.GlobalStepEvict(100))
    train_all_keys(model)
    train(model, 1)
    path = save_checkpoint(model, tmp_path / "saved")
    plain = make_model()
    load_checkpoint(plain, path)
    assert content(plain) == content(model)
    other = make_model(eviction=keras_sparse.GlobalStepEvict(5))
    load_checkpoint(other, path)
    assert ages(other) == ages(model)
    back = make_model(eviction=keras_sparse.GlobalStepEvict(5))
    load_checkpoint(back, save_checkpoint(plain, tmp_path / "plain"))
    assert content(back) == content(model)
    assert set(ages(back).values()) == {0}
    assert len(ages(back)) == 3000
