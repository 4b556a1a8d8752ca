"""Rows that a policy lets go at a save stay away in every checkpoint and delta after it."""

import pytest

import keras_sparse
from checkpoint_cases import content
from checkpoint_cases import make_model
from checkpoint_cases import storage
from checkpoint_cases import tables
from checkpoint_cases import train
from checkpoint_cases import train_all_keys
from eviction_cases import ages_of
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import save_delta


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
