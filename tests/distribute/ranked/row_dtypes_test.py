"""Tables with rows in 16 bits whose parts, of rows or of columns, are on several ranks."""

import keras
import numpy as np
import pytest

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse import saving
from keras_sparse.commands import inspect_command
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding

# Five columns are cut into three and two, each of which ends within a word.
SIZES = [(12, 5), (9, 3), (None, 5)]
BY_ROWS, BY_COLUMNS = {"row_slice_threshold": 1}, {"column_slice_threshold": 30}
WHOLE = {"column_slice_threshold": 10**9}
DTYPES = {"row_dtype": "bfloat16", "slot_dtype": "bfloat16"}
IDS = np.random.default_rng(0).integers(0, 9, (48, 2))
TARGETS = np.random.default_rng(1).normal(size=(48, 1))


def make_model(places, dtypes, seed=0):
    layers = [
        Embedding(*size, "sum", seed=seed + i, name=f"t{i}", **dtypes)
        for i, size in enumerate(SIZES)
    ]
    ids = keras.Input((2,), dtype="int64")
    spread = DistributedEmbedding(layers, name="spread", **places)
    rows = keras.layers.Concatenate()(spread([ids] * len(SIZES)))
    model = keras.Model(ids, keras.layers.Dense(1, kernel_initializer="ones")(rows))
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.Adagrad(0.1))
    model.compile(optimizer, loss="mse", run_eagerly=True)
    optimizer.build(model.trainable_variables)
    return model


def fit(model):
    mine = (each[ksd.rank() :: ksd.size()] for each in (IDS, TARGETS))
    model.fit(*mine, 12 // ksd.size(), shuffle=False, verbose=0)


def content(model):
    """Rows and slots of all tables, in the order of ids."""
    found = []
    for table in range(len(SIZES)):
        rows = model.get_layer("spread").find(np.arange(9), table=f"t{table}")
        found += [rows.rows, *rows.slots.values()]
    return found


@pytest.mark.parametrize(
    ("saved_places", "places"),
    [(BY_COLUMNS, BY_ROWS), (BY_ROWS, BY_COLUMNS), (BY_COLUMNS, BY_COLUMNS), (WHOLE, BY_COLUMNS)],
)
@pytest.mark.parametrize("form", ["checkpoint", "weights.h5"])
def test_parts_are_loaded_into_other_parts_with_the_same_bits(saved_places, places, form, folder):
    saved = make_model(saved_places, DTYPES)
    fit(saved)
    other = make_model(places, DTYPES, seed=5)
    wide = make_model(places, {}, seed=5)
    if form == "checkpoint":
        path = saving.save_checkpoint(saved, folder / "a", verbose=False)
        for each in (other, wide):
            saving.load_checkpoint(each, path, verbose=False)
        tables = inspect_command.collect(str(path))["tables"]
        assert {each["row_dtype"] for each in tables} == {"bfloat16"}
        widths = [width + width % 2 for _, width in SIZES]
        if saved_places == BY_ROWS:
            assert [each["bytes_a_row"] for each in tables] == [4 * width for width in widths]
    else:
        saved.save_weights(folder / "m.weights.h5")
        for each in (other, wide):
            each.load_weights(folder / "m.weights.h5")
    expected = content(saved)
    for each in (other, wide):
        for ours, theirs in zip(content(each), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    for model in (saved, other):
        fit(model)
    assert all(np.isfinite(each).all() for each in content(other))


def test_a_checkpoint_goes_on_bit_for_bit(folder):
    whole, saved = (make_model(BY_COLUMNS, DTYPES) for _ in range(2))
    fit(whole)
    fit(saved)
    path = saving.save_checkpoint(saved, folder / "a", verbose=False)
    other = make_model(BY_COLUMNS, DTYPES, seed=5)
    saving.load_checkpoint(other, path, verbose=False)
    fit(other)
    fit(whole)
    for ours, theirs in zip(content(other), content(whole), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_wire_of_the_dtype_of_rows_loses_nothing():
    layers = [Embedding(None, 5, row_dtype="bfloat16", seed=1)]
    options = {"row_slice_threshold": 1}
    plain = DistributedEmbedding(layers, **options)
    ids = np.arange(40)
    fewer = DistributedEmbedding(
        [Embedding(None, 5, row_dtype="bfloat16", seed=1)], wire_dtype="bfloat16", **options
    )
    found = [layer([ids])[0].numpy() for layer in (plain, fewer)]
    assert np.abs(found[0]).max() > 0
    np.testing.assert_array_equal(*found)
