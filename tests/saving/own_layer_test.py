"""Tables of a user's own layer, as the guide of checkpoints has it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
import layer_cases
from checkpoint_cases import reloaded
from keras_sparse.layers import Embedding
from keras_sparse.saving import save_checkpoint
from layer_cases import FORMS
from layer_cases import LAYERS
from layer_cases import made
from layer_cases import OwnLookup
from layer_cases import train


@keras.saving.register_keras_serializable("own_layer_test")
class Forgetful(keras.layers.Layer):
    """Has a table and says nothing of it to files."""

    def __init__(self, input_dim, **kwargs):
        super().__init__(**kwargs)
        self.input_dim = input_dim

    def build(self, input_shape):
        self.table = keras_sparse.EmbeddingVariable(self.input_dim, 4, seed=1)

    def call(self, ids):
        return keras_sparse.ops.embedding_lookup(self.table, ids)

    def compute_output_spec(self, ids):
        return keras.KerasTensor((*ids.shape, 4))

    def get_config(self):
        return {**super().get_config(), "input_dim": self.input_dim}


@keras.saving.register_keras_serializable("own_layer_test")
class Remembering(Forgetful):
    save_own_variables = OwnLookup.save_own_variables
    load_own_variables = OwnLookup.load_own_variables


IDS = np.random.default_rng(0).integers(0, 50, (64, 2))
LABELS = (IDS[:, :1] % 2).astype("float32")


def make_model(layer):
    ids = keras.Input((2,), dtype="int64")
    outputs = keras.layers.Dense(1)(keras.layers.Flatten()(layer(ids)))
    model = keras.Model(ids, outputs)
    model.compile(keras_sparse.optimizers.Adam(0.1), loss="mse", run_eagerly=True)
    model.train_on_batch(IDS, LABELS)
    return model


@pytest.mark.parametrize("form", ["keras", "checkpoint"])
def test_a_static_table_comes_back_with_its_slots(form, tmp_path):
    model = make_model(Remembering(50))
    loaded = reloaded(model, lambda: make_model(Remembering(50)), tmp_path, form)
    for each in (model, loaded):
        each.train_on_batch(IDS[:9], LABELS[:9])
    checks.assert_same_tables(loaded.layers[1].table, model.layers[1].table)


def test_a_checkpoint_without_the_table_is_an_error(tmp_path):
    model = make_model(Forgetful(50))
    with pytest.raises(ValueError, match="A layer of your own must save its tables"):
        save_checkpoint(model, tmp_path / "checkpoint")
    assert not list(tmp_path.iterdir())


def test_a_dynamic_table_says_how_a_layer_saves_it(tmp_path):
    model = make_model(Forgetful(None))
    with pytest.raises(NotImplementedError, match=r"keras_sparse\.saving\.save_table"):
        model.save(tmp_path / "model.keras")


class Tower(keras.layers.Layer):
    """Holds an `Embedding` in a container.

    Args:
        hold: Function of a layer that returns the container.
    """

    def __init__(self, hold, **kwargs):
        super().__init__(**kwargs)
        self.held = hold(keras_sparse.layers.Embedding(None, 2, "sum"))

    def call(self, ids):
        return self._flatten_layers(include_self=False)[0](ids)

    def get_config(self):
        return super().get_config()


def make_tower(hold):
    ids = keras.Input((2,), dtype="int64")
    model = keras.Model(ids, keras.layers.Dense(1)(Tower(hold)(ids)))
    model.compile(keras_sparse.optimizers.Adam(0.1), loss="mse", run_eagerly=True)
    model.train_on_batch(IDS, LABELS)
    return model


@pytest.mark.parametrize("name", ["model.weights.h5", "model.keras"])
def test_a_table_is_in_the_file_or_saving_it_is_an_error(name, tmp_path):
    """Keras saves what is in sets before 3.15 alone, and in lists of lists since then."""
    refused = []
    for hold in (lambda layer: {layer}, lambda layer: [[layer]]):
        model, other = make_tower(hold), make_tower(hold)
        other.train_on_batch(IDS, LABELS)
        path = tmp_path / name
        try:
            model.save(path) if name.endswith(".keras") else model.save_weights(path)
        except ValueError as error:
            refused.append(str(error))
            assert not path.exists()
        else:
            other.load_weights(path)
            np.testing.assert_array_equal(other.predict(IDS), model.predict(IDS))
            path.unlink()
    (message,) = refused
    assert "must reach each layer with a table" in message
    assert "of layer 'embedding" in message


# A model of any form, loaded from a file of any format, predicts the same bits.
IDS_OF_FORMS = np.random.default_rng(0).integers(0, 60, (8, 3))
LARGE = IDS_OF_FORMS + 2**40  # no float32 holds them
# The second goes by the names of layers, whatever the form of their model.
FILES = ["keras", "checkpoint"]


# What is first in a sequential model without an `Input` is to refuse its guess, as ours do.
@pytest.mark.parametrize(
    ("form", "case"),
    [(f, c) for f in FORMS for c in LAYERS if (f, c) != ("sequential", "own_lookup")],
)
def test_predicts_the_same_bits_and_trains_on(form, case, tmp_path):
    ids = tf.constant(IDS_OF_FORMS if case in layer_cases.STATIC else LARGE)
    model = made(form, case, ids)
    train(model, ids)
    expected = np.asarray(model(ids))
    loaded = {
        name: reloaded(model, lambda: made(form, case, ids), tmp_path, name)
        for name in (FILES if form == "functional" else FILES[:1])
    }
    for name, other in loaded.items():
        np.testing.assert_array_equal(other(ids), expected, err_msg=name)
    train(model, ids)
    for name, other in loaded.items():
        train(other, ids)
        np.testing.assert_array_equal(other(ids), model(ids), err_msg=name)


def test_a_sequential_model_without_an_input_keeps_large_keys():
    model = keras.Sequential([Embedding(None, 2, "sum"), keras.layers.Dense(1)])
    model.compile(keras_sparse.optimizers.SGD(0.5), loss="mse")
    model.train_on_batch(LARGE, np.ones((8, 1)))
    ((keys, _),) = model.layers[0].embeddings.export()
    assert set(keys) == set(LARGE.flat)
