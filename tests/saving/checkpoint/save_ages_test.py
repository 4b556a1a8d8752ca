"""Tables with an eviction policy, in files."""

import json
import sys
import zlib

import numpy as np
import pytest

import checks
from eviction_cases import ages_of
from eviction_cases import make_model
from eviction_cases import make_table
from eviction_cases import step
from eviction_cases import table_of
from eviction_cases import train
from keras_sparse import EmbeddingVariable
from keras_sparse import GlobalStepEvict
from keras_sparse import L2WeightEvict
from keras_sparse.saving import load_table
from keras_sparse.saving import save_table
from keras_sparse.utils import byte_sizes


def aged(eviction=None, **kwargs):
    """A table of keys 1, 2, 3 with ages 3, 2, 1, and its optimizer."""
    table = make_table(eviction or GlobalStepEvict(9), **kwargs)
    for ids in ([1], [2], [3], []):
        step(*table, ids)
    return table


def saved(variable):
    store = {}
    save_table(variable, store)
    return store


@pytest.mark.parametrize("at_save", [True, False])
def test_rows_go_before_the_table_is_written_if_asked_to(at_save, tmp_path):
    model = make_model(GlobalStepEvict(2, at_save=at_save))
    train(model, 0, 128)
    rows = table_of(model).num_rows
    model.save_weights(tmp_path / "model.weights.h5")
    loaded = make_model(GlobalStepEvict(2))
    loaded.load_weights(tmp_path / "model.weights.h5")
    checks.assert_same_tables(table_of(loaded), table_of(model))
    assert ages_of(table_of(loaded)) == ages_of(table_of(model))
    gone = table_of(model).stats()["evicted_rows"]
    assert table_of(model).num_rows == rows - gone
    assert (gone > 0) == at_save
    assert (max(ages_of(table_of(model)).values()) <= 2) == at_save


def test_a_file_has_the_ages():
    store = saved(aged()[0])
    names = ["ages_000000", "header", "header_crc32", "keys_000000", "records_000000"]
    assert sorted(store) == names
    assert store["ages_000000"].dtype == np.uint32
    ages = dict(zip(store["keys_000000"].tolist(), store["ages_000000"].tolist(), strict=True))
    assert ages == {1: 3, 2: 2, 3: 1}
    header = json.loads(store["header"].tobytes())
    assert header["version"] == 4
    assert header["ages"] == [zlib.crc32(store["ages_000000"].data)]
    assert "filter" not in header
    loaded, _ = make_table(GlobalStepEvict(1))
    load_table(loaded, store)
    assert ages_of(loaded) == ages
    assert loaded.evict() == 2


def test_a_file_of_a_table_that_keeps_none_is_as_ever():
    for eviction in (None, L2WeightEvict(1e-9)):
        variable, optimizer = make_table(eviction)
        step(variable, optimizer, [1])
        store = saved(variable)
        assert sorted(store) == ["header", "header_crc32", "keys_000000", "records_000000"]
        assert json.loads(store["header"].tobytes())["version"] == 2


def test_a_table_that_keeps_no_ages_drops_them():
    store = saved(aged()[0])
    for eviction in (None, L2WeightEvict(1e-9)):
        loaded, _ = make_table(eviction)
        load_table(loaded, store)
        assert loaded.num_rows == 3
        ((_, _, ages),) = loaded.export(with_ages=True)
        assert ages is None


def test_rows_of_a_file_without_ages_have_age_0():
    plain = EmbeddingVariable(None, 1)
    plain.import_([5, 6], [[1.0], [2.0]])
    loaded, optimizer = aged()
    load_table(loaded, saved(plain))
    assert ages_of(loaded) == {5: 0, 6: 0}
    step(loaded, optimizer, [6])
    assert ages_of(loaded) == {5: 1, 6: 0}


def test_damaged_ages_change_no_table():
    store = saved(aged()[0])
    variable, _ = aged()
    damaged = store["ages_000000"].copy()
    damaged[1] ^= 1
    with pytest.raises(ValueError, match=r"must match their checksums.*ages_000000"):
        load_table(variable, {**store, "ages_000000": damaged})
    with pytest.raises(ValueError, match=r"must have all its chunks.*ages_000000"):
        load_table(variable, {name: store[name] for name in store if name != "ages_000000"})
    assert ages_of(variable) == {1: 3, 2: 2, 3: 1}


def test_a_large_table_is_written_in_chunks_of_at_most_16_mib(monkeypatch):
    assert byte_sizes.CHUNK_BYTES == 16 << 20
    monkeypatch.setattr(
        sys.modules["keras_sparse.saving.keras_files.save_table"], "CHUNK_BYTES", 16 << 10
    )
    variable, _ = make_table(GlobalStepEvict(9))
    keys = np.arange(1_500)
    variable.import_(keys, np.ones((len(keys), 1)), keys % 7)
    store = saved(variable)
    assert max(array.nbytes for array in store.values()) <= 16 << 10
    assert sum(name.startswith("ages_") for name in store) >= 2
    loaded, _ = make_table(GlobalStepEvict(3))
    load_table(loaded, store)
    assert loaded.evict() == (keys % 7 > 3).sum()
