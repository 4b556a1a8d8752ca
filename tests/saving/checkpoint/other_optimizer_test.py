"""What a table takes over from one that another optimizer has trained."""

import re
import warnings

import numpy as np
import pytest

import checks
from keras_sparse import EmbeddingVariable
from keras_sparse import optimizers
from keras_sparse.saving import load_table
from keras_sparse.saving import save_table
from optimizer_cases import CLASSES
from optimizer_cases import slices


def trained(optimizer, input_dim):
    """A table after two steps; keys 0 to 3 have rows, the last two have moves to make up for."""
    table = EmbeddingVariable(input_dim, 2, seed=1)
    for ids in ([0, 1, 2, 3], [0, 1]):
        optimizer.apply([slices(ids, np.full((len(ids), 2), 0.5, "float32"))], [table])
    return table


def loaded_into(optimizer, saved):
    table = EmbeddingVariable(saved.input_dim, 2, seed=2)
    optimizer.build([table])
    store = {}
    save_table(saved, store)
    load_table(table, store)
    return table


def rows_of(table):
    return {key: record[:8] for key, record in checks.table_content(table).items()}


each_kind = pytest.mark.parametrize("input_dim", [4, None], ids=["static", "dynamic"])


@each_kind
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (optimizers.Adam(), optimizers.LazyAdam()),
        (optimizers.LazyAdam(), optimizers.Adam()),
        (optimizers.AdamAsync(), optimizers.AdamW(weight_decay=0.5)),
        (optimizers.AdamW(), optimizers.Adam(0.5, beta_1=0.5, beta_2=0.5)),
        (optimizers.LazyAdam(), optimizers.AdamAsync()),
        (optimizers.RMSprop(momentum=0.5), optimizers.AdamAsync(apply_sparse_rmsprop=True)),
        (optimizers.SGD(momentum=0.5), optimizers.SGD(momentum=0.9, nesterov=True)),
        (optimizers.Adagrad(), optimizers.Adagrad(initial_accumulator_value=0.5)),
    ],
    ids=lambda optimizer: type(optimizer).__name__,
)
def test_slots_of_one_kind_are_taken_over(first, second, input_dim):
    first, second = (type(o).from_config(o.get_config()) for o in (first, second))
    saved = trained(first, input_dim)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = loaded_into(second, saved)
    assert checks.table_content(table) == checks.table_content(saved)
    assert saved.slot_names == table.slot_names


@each_kind
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (optimizers.SGD(momentum=0.5), optimizers.Lion()),
        (optimizers.Lion(), optimizers.SGD(momentum=0.5)),
        (optimizers.Adam(), optimizers.Adam(amsgrad=True)),
        (optimizers.Adam(amsgrad=True), optimizers.LazyAdam()),
        (optimizers.Adam(), optimizers.Nadam()),
        (optimizers.Adagrad(), optimizers.AdagradDecay()),
        (optimizers.Adagrad(), optimizers.RowWiseAdagrad()),
        (optimizers.RowWiseAdagrad(), optimizers.Adagrad()),
        (optimizers.RMSprop(), optimizers.RMSprop(momentum=0.5)),
        (optimizers.RMSprop(momentum=0.5), optimizers.RMSprop(centered=True)),
        (optimizers.AdamAsync(), optimizers.AdamAsync(apply_sparse_rmsprop=True)),
        (optimizers.Ftrl(), optimizers.Adagrad()),
        (optimizers.SGD(momentum=0.5), optimizers.SGD()),
    ],
    ids=lambda optimizer: type(optimizer).__name__,
)
def test_slots_of_another_kind_are_not_and_it_says_so(first, second, input_dim):
    first, second = (type(o).from_config(o.get_config()) for o in (first, second))
    saved = trained(first, input_dim)
    words = re.escape(f"rule '{saved.rule}'") + ".*" + f"rule '{second.rule}' starts with fresh"
    with pytest.warns(UserWarning, match=words):
        table = loaded_into(second, saved)
    assert rows_of(table) == rows_of(saved)
    fresh = EmbeddingVariable(input_dim, 2)
    type(second).from_config(second.get_config()).build([fresh])
    fresh.import_(np.arange(4), np.zeros((4, 2)))
    slots = {key: record[8:] for key, record in checks.table_content(table).items()}
    assert slots == {key: record[8:] for key, record in checks.table_content(fresh).items()}


@each_kind
@pytest.mark.parametrize("case", CLASSES, ids=lambda case: case.ours.__name__)
def test_a_table_without_an_optimizer_takes_rows_as_they_read(case, input_dim):
    saved = trained(case.make(), input_dim)
    table = EmbeddingVariable(input_dim, 2)
    store = {}
    save_table(saved, store)
    load_table(table, store)
    assert checks.table_content(table) == rows_of(saved)


@each_kind
@pytest.mark.parametrize("case", CLASSES, ids=lambda case: case.ours.__name__)
def test_rows_without_an_optimizer_get_fresh_slots(case, input_dim):
    saved = EmbeddingVariable(input_dim, 2, seed=3)
    saved.import_(np.arange(4), np.arange(8, dtype="float32").reshape(4, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = loaded_into(case.make(), saved)
    assert rows_of(table) == checks.table_content(saved)
