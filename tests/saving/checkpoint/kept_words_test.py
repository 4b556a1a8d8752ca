"""Files of each form keep what a table has beside its rows, such as ages."""

import collections
import functools
import itertools

import pytest

import checks
import keras_sparse
from checkpoint_cases import FORMS
from checkpoint_cases import load
from checkpoint_cases import reloaded
from checkpoint_cases import save
from checkpoint_cases import storage
from checkpoint_cases import STORAGE_TYPES
from eviction_cases import ages_of
from eviction_cases import frequencies_of
from eviction_cases import IDS
from eviction_cases import make_model
from eviction_cases import table_of
from eviction_cases import train
from filter_cases import CASES
from filter_cases import remembered
from keras_sparse import CounterFilter
from keras_sparse import GlobalStepEvict
from keras_sparse import L2WeightEvict
from keras_sparse import LfuEvict
from keras_sparse import LruEvict
from keras_sparse import StorageOption
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import save_delta
from keras_sparse.serving import apply_delta

# By whether saving lets rows go.
AT_SAVE = [
    {"eviction": GlobalStepEvict(3), "frequency": True},
    {"eviction": L2WeightEvict(1.7e-3)},
    {"eviction": GlobalStepEvict(3), "admission": CounterFilter(2)},
]
LATER = [
    {"eviction": GlobalStepEvict(3, at_save=False)},
    {"eviction": L2WeightEvict(1.7e-3, at_save=False)},
    {"eviction": LruEvict(), "max_rows": 60},
    {"eviction": LfuEvict(), "max_rows": 60},
    {"frequency": True},
    *({"admission": case.make()} for case in CASES),
]
OTHER_CONSTANTS = {
    "Adagrad": lambda: keras_sparse.optimizers.Adagrad(0.05, epsilon=1e-3),
    "LazyAdam": lambda: keras_sparse.optimizers.LazyAdam(0.05, beta_1=0.5),
}


def words_of(model):
    """Returns what a table keeps beside its rows, and what its filter remembers."""
    table = table_of(model)
    kept = [ages_of(table)] if table.table.metadata.ages else []
    kept += [frequencies_of(table)] if table.table.metadata.frequencies else []
    return kept, remembered(table)


def assert_same(model, other):
    checks.assert_same_tables(table_of(model), table_of(other))
    assert words_of(model) == words_of(other)


@pytest.mark.parametrize(
    ("options", "optimizer", "storage_type"),
    [
        pytest.param(
            *each, marks=[pytest.mark.slow("long history")] if each[0] in LATER[2:] else []
        )
        for each in zip(
            [*AT_SAVE, *LATER], itertools.cycle(OTHER_CONSTANTS), itertools.cycle(STORAGE_TYPES)
        )
    ],
)
def test_training_on_from_any_file_equals_never_stopping(
    options, optimizer, storage_type, tmp_path
):
    make = functools.partial(make_model, optimizer=optimizer, **options)
    model = make(storage=storage(storage_type, tmp_path / "rows"))
    train(model, 0, 96)
    save_checkpoint(model, tmp_path / "first")
    load_checkpoint(follower := make(), tmp_path / "first")
    train(model, 96, 160)
    delta = save_delta(model, tmp_path / "delta")
    if "max_rows" not in options:
        assert (table_of(model).stats()["evicted_rows"] > 0) == (options in AT_SAVE)
    apply_delta(follower, delta)
    over_tiers = make(storage=StorageOption("DRAM_SSDHASH", tmp_path / "others", [1, 1 << 30]))
    # A server needs nothing of what filters remember.
    loaded = [load(over_tiers, delta), *([] if "admission" in options else [follower])]
    records = 4 * table_of(model).record_floats * table_of(model).num_rows
    most_gb = 1.1 * max(records, 1500) / 2**30  # one of several files has no room for all words
    loaded += [reloaded(model, make, tmp_path, form, most_gb=most_gb) for form in FORMS]
    for each in loaded:
        assert_same(each, model)
    assert len([*tmp_path.glob("saved_*.h5")]) > 1
    assert ("admission" in options) == bool(remembered(table_of(model)))
    # With other constants it takes what the rule of the file makes of the rows.
    other = load(make(optimizer=OTHER_CONSTANTS[optimizer]()), delta)
    assert words_of(other) == words_of(model)
    num_evicted = {id(each): [] for each in (model, *loaded)}
    for first in (160, 208):
        for each in (model, *loaded):
            train(each, first, first + 48)
            if "eviction" in options:
                num_evicted[id(each)].append(each.get_layer("items").evict())
        for each in loaded:
            assert_same(each, model)
    assert len({*map(tuple, num_evicted.values())}) == 1
    if "eviction" in options:
        assert table_of(model).stats()["evicted_rows"] > 20
    if options in LATER and "eviction" not in options:
        train(never_saved := make(), 0, 256)
        assert_same(never_saved, model)


@pytest.mark.parametrize("form", ["weights.h5", "checkpoint"])
def test_words_behind_the_last_step_of_a_row_are_kept(form, tmp_path):
    options = {"eviction": GlobalStepEvict(1000), "frequency": True}
    train(model := make_model(optimizer="Adam", **options), 0, 96)
    steps = collections.Counter(
        key for first in range(0, 96, 16) for key in {*IDS[first : first + 16].flat}
    )
    assert frequencies_of(table_of(model)) == steps
    # It cannot take records as they lie.
    other = make_model(optimizer=keras_sparse.optimizers.Adam(0.05, beta_1=0.5), **options)
    assert words_of(load(other, save(model, tmp_path, form))) == words_of(model)
