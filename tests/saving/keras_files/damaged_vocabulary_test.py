"""A vocabulary that cannot be loaded is an error, and nothing in the model changes."""

import h5py
import keras
import numpy as np
import pytest

import checks
import keras_sparse
from keras_sparse.layers import Embedding

IDS = np.arange(12).reshape(6, 2) % 8


# Of the other paths by which Keras then looks for the layer.
@pytest.mark.filterwarnings("ignore:Skipping nested container")
@pytest.mark.parametrize("group", ["integer_lookup", "integer_lookup_1"])
def test_a_vocabulary_that_cannot_be_loaded_changes_nothing(group, tmp_path):
    def make(ids):
        inputs = keras.Input((2,), dtype="int64")
        lookups = [keras_sparse.layers.IntegerLookup(50) for _ in range(2)]
        tables = [Embedding(51, 3, "sum") for _ in lookups]
        rows = [table(lookup(inputs)) for lookup, table in zip(lookups, tables, strict=True)]
        for lookup in lookups:
            lookup(ids, training=True)
        return keras.Model(inputs, rows), lookups, tables

    def content(lookups, tables):
        return [each.get_vocabulary() for each in lookups], [
            checks.table_content(each.embeddings) for each in tables
        ]

    path = tmp_path / "m.weights.h5"
    make(IDS + 30)[0].save_weights(path)
    with h5py.File(path, "a") as file:
        file[f"layers/{group}/vars/keys"][:] = 3
    model, *layers = make(IDS)
    before = content(*layers)
    with pytest.raises(ValueError, match=r"must have each key once\. Received: key 3 again"):
        model.load_weights(path)
    assert content(*layers) == before
