"""Tables in the memory of a GPU over lower tiers. Run by run_on_gpu.py."""

import keras
import numpy as np
import pytest

import checkpoint_cases
import checks
import keras_sparse
from checkpoint_cases import make_model
from keras_sparse import StorageOption
from table_twins import each_stack
from table_twins import small
from table_twins import STACKS
from table_twins import Twins

ON_GPU = [stack for stack in STACKS if stack.startswith("HBM")]
each_on_gpu = pytest.mark.parametrize("storage_type", ON_GPU)


def test_all_six_types_are_there():
    types = [str(each) for each in keras_sparse.StorageType if str(each).startswith("HBM_")]
    assert sorted(ON_GPU) == sorted(types)


@each_on_gpu
def test_a_model_trains_as_one_in_memory_and_is_saved(storage_type, tmp_path):
    models = [
        make_model(checkpoint_cases.storage(each, tmp_path / "rows"))
        for each in (storage_type, "DRAM_SSDHASH")
    ]
    for model in models:
        checkpoint_cases.train_all_keys(model)
        checkpoint_cases.fit(model)
    contents = [checkpoint_cases.content(model) for model in models]
    assert contents[0] == contents[1]
    tiers = checkpoint_cases.tables(models[0])[0].stats()["tiers"]
    assert list(tiers) == storage_type.split("_")
    assert all(tier["rows"] > 0 for tier in tiers.values())
    assert tiers["HBM"]["promotions"] > 0
    assert tiers["HBM"]["demotions"] > 0
    # A checkpoint, its delta and a file of Keras say nothing of where the rows were.
    keras_sparse.saving.save_checkpoint(models[0], tmp_path / "saved")
    checkpoint_cases.train(models[0], 1)
    keras_sparse.saving.save_delta(models[0], tmp_path / "delta")
    models[0].save(tmp_path / "model.keras")
    expected = checkpoint_cases.content(models[0])
    for each in (storage_type, "HBM", None):
        storage = checkpoint_cases.storage(each, tmp_path / "rows") if each != "HBM" else None
        loaded = make_model(storage)
        keras_sparse.saving.load_checkpoint(loaded, tmp_path / "delta")
        assert checkpoint_cases.content(loaded) == expected
    assert checkpoint_cases.content(keras.saving.load_model(tmp_path / "model.keras")) == expected


@each_stack
def test_rows_of_every_tier_are_evicted_cleared_and_laid_out_anew(storage_type, tmp_path):
    twins = Twins(small(tmp_path, storage_type))
    twins.train_some(20)
    twins.check_each_tier_has_rows()
    for table in twins.tables:
        keras_sparse.optimizers.Adam(0.1).build([table])
    twins.check()
    for table in twins.tables:
        table.clear()
    assert twins.tiered.num_rows == 0
    assert all(not tier["rows"] for tier in twins.tiered.stats()["tiers"].values())


def test_memory_as_the_only_lower_tier_needs_no_folder(tmp_path):
    storage = StorageOption("HBM_DRAM", storage_size=["100kB", "1MB"])
    assert (storage.storage_path, storage.sizes) == (None, [100_000, 1_000_000])
    twins = Twins(storage)
    twins.train_some(10)
    twins.check_each_tier_has_rows()
    twins.check()
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(storage))
    assert copy.get_config() == storage.get_config()
    assert checks.table_content(twins.tiered) == checks.table_content(twins.plain)


def test_a_full_last_tier_stops_a_step_before_it_changes_anything():
    twins = Twins(StorageOption("HBM_DRAM", storage_size=["100kB", "300kB"]))
    with pytest.raises(Exception, match="the size of the dram tier must hold all rows"):
        twins.train_some(30)
    twins.check()
    assert 500 < twins.tiered.num_rows < 1500


def test_each_step_says_how_often_the_gpu_had_its_rows():
    twins = Twins(StorageOption("HBM_DRAM", storage_size=["100kB", "1GB"]))
    twins.train(np.arange(1000).tolist())
    twins.check()
    tiers = twins.tiered.stats()["tiers"]
    assert tiers["HBM"]["hits"] + tiers["DRAM"]["hits"] == 1000
    assert tiers["HBM"]["hits"] == tiers["HBM"]["rows"]
