"""Tables of a user's own layer, as the guide of checkpoints has it."""

import keras
import numpy as np
import pytest

import checks
import keras_sparse
from checkpoint_cases import reloaded
from keras_sparse.saving import save_checkpoint
from layer_cases import OwnLookup


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
