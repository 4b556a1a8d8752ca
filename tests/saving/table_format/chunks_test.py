"""What admission filters remember, in files."""

import json
import sys
import warnings

import numpy as np
import pytest

from filter_cases import each_filter
from filter_cases import filtered
from filter_cases import make_model
from filter_cases import read
from filter_cases import remembered
from filter_cases import step
from filter_cases import table_of
from filter_cases import train
from keras_sparse import CounterFilter
from keras_sparse import EmbeddingVariable
from keras_sparse.saving import load_table
from keras_sparse.saving import save_table
from keras_sparse.saving.table_format import chunks


@each_filter
def test_a_filtered_table_goes_back_to_its_file(case):
    model = make_model(case.make())
    train(model, 0, 64)
    store = {}
    save_table(table_of(model), store)
    before = remembered(table_of(model))
    train(model, 64, 256)
    assert remembered(table_of(model)) != before
    load_table(table_of(model), store)
    assert remembered(table_of(model)) == before


def waiting(keys=(1, 2, 2**63 - 1), filter_freq=3):
    """A table in which the keys have been counted once, and another that has a row."""
    variable, optimizer = filtered(CounterFilter(filter_freq))
    step(variable, optimizer, keys)
    variable.import_([50], [[5.0]])
    store = {}
    save_table(variable, store)
    return store


def test_the_header_says_what_is_remembered():
    header = json.loads(waiting()["header"].tobytes())
    assert header["version"] == 3
    assert header["filter"]["layout"] == {"kind": "counter"}
    assert [chunk[:2] for chunk in header["filter"]["chunks"]] == [[3, None]]


def test_counts_of_steps_are_not_taken_for_counts_of_occurrences():
    variable, optimizer = filtered(CounterFilter(3, count="occurrences"))
    step(variable, optimizer, [1, 1, 2])
    store = {}
    save_table(variable, store)
    layout = {"kind": "counter", "count": "occurrences"}
    assert json.loads(store["header"].tobytes())["filter"]["layout"] == layout
    same, _ = filtered(CounterFilter(3, count="occurrences"))
    load_table(same, store)
    assert remembered(same) == {1: 2, 2: 1}
    for admission, saved in [(CounterFilter(3), store), (same.admission, waiting())]:
        other, _ = filtered(admission)
        with pytest.warns(UserWarning, match="keys that wait is dropped.*'counter'"):
            load_table(other, saved)
        assert remembered(other) == {}


def test_a_table_whose_filter_remembers_nothing_is_saved_as_without_one():
    stores = [{}, {}]
    for store, admission in zip(stores, (CounterFilter(2), None), strict=True):
        save_table(EmbeddingVariable(None, 1, "ones", admission=admission), store)
    assert stores[0].keys() == stores[1].keys()
    assert stores[0]["header"].tobytes() == stores[1]["header"].tobytes()


def test_a_file_without_a_filter_leaves_the_filter_empty():
    store = {}
    plain, _ = filtered(None)
    plain.import_([50], [[5.0]])
    save_table(plain, store)
    variable, optimizer = filtered(CounterFilter(2))
    step(variable, optimizer, [1])
    load_table(variable, store)
    assert remembered(variable) == {}
    assert read(variable, [50, 1]) == [5, 0]


def test_a_table_without_a_filter_drops_what_was_remembered_and_says_so():
    variable, _ = filtered(None)
    with pytest.warns(UserWarning, match="keys that wait is dropped.*'counter'.*admission None"):
        load_table(variable, waiting())
    assert read(variable, [50, 1]) == [5, 1]


def test_a_smaller_frequency_admits_at_the_next_gradient():
    variable, optimizer = filtered(CounterFilter(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_table(variable, waiting(filter_freq=9))
    step(variable, optimizer, [2, 3])
    assert read(variable, [2, 3]) == [0.75, 0]


def test_many_waiting_keys_are_written_in_chunks(monkeypatch):
    assert 12 * chunks.MAX_ENTRIES <= 16 << 20
    monkeypatch.setattr(
        sys.modules["keras_sparse.saving.keras_files.save_table"], "MAX_ENTRIES", 1000
    )
    variable, optimizer = filtered(CounterFilter(2))
    keys = np.arange(0, 3 * 1_500, 3)
    step(variable, optimizer, keys)
    store = {}
    save_table(variable, store)
    assert max(len(store[name]) for name in store if name.startswith("filter_")) <= 1000
    assert sum(name.startswith("filter_keys_") for name in store) >= 2
    loaded, optimizer = filtered(CounterFilter(2))
    load_table(loaded, store)
    assert loaded.stats()["waiting_keys"] == len(keys)
    step(loaded, optimizer, keys)
    assert loaded.num_rows == len(keys)


@pytest.mark.parametrize("name", ["filter_keys_000000", "filter_counts_000000"])
def test_a_damaged_filter_changes_no_table(name):
    store = waiting()
    variable, optimizer = filtered(CounterFilter(3))
    step(variable, optimizer, [8])
    damaged = store[name].copy()
    damaged[1] ^= 1
    with pytest.raises(ValueError, match=f"must match their checksums.*{name}"):
        load_table(variable, {**store, name: damaged})
    with pytest.raises(ValueError, match="must have all its chunks"):
        load_table(variable, {each: store[each] for each in store if each != name})
    assert remembered(variable) == {8: 1}
