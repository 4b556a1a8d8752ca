"""What layers keep beside variables stays where something of the file cannot be loaded."""

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


@pytest.mark.filterwarnings("ignore:Skipping nested container")
def test_what_a_layer_makes_of_its_variables_stays(tmp_path):
    def make(scale):
        numbers, ids = keras.Input((2,)), keras.Input((2,), dtype="int64")
        norm = keras.layers.Normalization()
        norm.adapt(scale * np.arange(12.0).reshape(6, 2))
        rows = Embedding(20, 3, "sum", seed=1)(ids)
        joined = keras.layers.Concatenate()([norm(numbers), rows])
        return keras.Model([numbers, ids], keras.layers.Dense(1, name="last")(joined)), norm

    path = tmp_path / "m.weights.h5"
    make(1)[0].save_weights(path)
    with h5py.File(path, "a") as file:
        del file["layers/dense/vars/0"]
    model, norm = make(100)
    before = np.array(norm.mean)
    with pytest.raises(ValueError, match=r"(?s)could not be loaded.*last"):
        model.load_weights(path)
    np.testing.assert_array_equal(norm.mean, before)
