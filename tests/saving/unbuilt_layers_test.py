"""Layers without a table or vocabulary yet, in files: as those of Keras, they are passed by."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from checkpoint_cases import load
from checkpoint_cases import reloaded
from checkpoint_cases import save
from layer_cases import LAYERS

IDS = tf.constant(np.random.default_rng(0).integers(0, 60, (8, 3)))


@keras.saving.register_keras_serializable("unbuilt_layers_test")
class Switched(keras.Model):
    """Has a layer that it uses, and the same kind of layers that it does not."""

    def __init__(self, case, uses_all=False, **kwargs):
        super().__init__(**kwargs)
        self.case = case
        self.uses_all = uses_all
        make, self.before, self.after = LAYERS[case]
        self.rows = make()
        self.context = make()
        self.kept = [make()]
        self.out = keras.layers.Dense(1)

    def call(self, ids):
        rows = self.after(self.rows(self.before(ids)))
        if self.uses_all:
            for layer in (self.context, *self.kept):
                rows += self.after(layer(self.before(ids)))
        return self.out(rows)

    def get_config(self):
        return {**super().get_config(), "case": self.case}


class Kept(keras.Model):
    """Keeps the layers that a `DistributedEmbedding` has taken, as Merlin's examples do."""

    def __init__(self, layer_class):
        super().__init__()
        self.tables = [layer_class(60, 2), layer_class(60, 3)]
        self.rows = keras_sparse.layers.DistributedEmbedding(self.tables)
        self.out = keras.layers.Dense(1)

    def call(self, ids):
        return self.out(tf.concat(self.rows([ids[:, 0], ids[:, 1]]), 1))


def built(model):
    model.compile(keras_sparse.optimizers.Adagrad(0.5), loss="mse")
    model(IDS)
    model.optimizer.build(model.trainable_variables)
    return model


FORMS = ["keras", "weights.h5", "checkpoint"]
# A checkpoint finds tables by their variables, whatever layer has them.
IN_CHECKPOINTS = ["dynamic", "distributed_static", "integer_lookup", "own_lookup"]


# Keras says so of the layers that a model does not build.
@pytest.mark.filterwarnings("ignore:`build\\(\\)` was called on layer")
@pytest.mark.parametrize("case", LAYERS)
def test_what_a_model_does_not_use_is_passed_by(case, tmp_path):
    model = built(Switched(case))
    for form in FORMS if case in IN_CHECKPOINTS else FORMS[:2]:
        loaded = reloaded(model, lambda: built(Switched(case)), tmp_path, form)
        np.testing.assert_array_equal(loaded(IDS), model(IDS))
        assert not loaded.context.trainable_variables


@pytest.mark.filterwarnings("ignore:`build\\(\\)` was called on layer")
@pytest.mark.parametrize("layer_class", [keras.layers.Embedding, keras_sparse.layers.Embedding])
@pytest.mark.parametrize("form", FORMS[1:])
def test_the_layers_that_another_one_has_taken_may_be_kept(layer_class, form, tmp_path):
    model = built(Kept(layer_class))
    loaded = reloaded(model, lambda: built(Kept(layer_class)), tmp_path, form)
    np.testing.assert_array_equal(loaded(IDS), model(IDS))


@pytest.mark.filterwarnings("ignore:You are saving a model that has not yet been built")
@pytest.mark.filterwarnings("ignore:`build\\(\\)` was called on layer")
@pytest.mark.parametrize("case", LAYERS)
def test_a_model_that_was_never_called_comes_back(case, tmp_path):
    model = Switched(case)
    model.compile(keras_sparse.optimizers.Adagrad(0.5), loss="mse")
    loaded = reloaded(model, None, tmp_path, "keras")
    assert not loaded.trainable_variables
    assert loaded(IDS).shape == (8, 1)


@pytest.mark.filterwarnings("ignore:`build\\(\\)` was called on layer")
@pytest.mark.filterwarnings("ignore:Skipping variable loading for optimizer")
@pytest.mark.parametrize(
    ("case", "form"),
    [
        *((each, FORMS[1]) for each in LAYERS if each not in IN_CHECKPOINTS[2:]),
        *((each, FORMS[2]) for each in IN_CHECKPOINTS[:2]),
    ],
)
def test_a_table_of_a_file_is_never_dropped_in_silence(case, form, tmp_path):
    model = built(Switched(case, uses_all=True))
    other = built(Switched(case))
    expected = f"{re.escape(other.context.name)}' must be built before its table is loaded"
    if form == "checkpoint":
        expected = "must be loaded into a model with tables of the same shapes"
    with pytest.raises(ValueError, match=expected):
        load(other, save(model, tmp_path, form))
    # And the other way round: a table of the model that the file has not.
    (tmp_path / "other").mkdir()
    with pytest.raises(ValueError, match=r"must be in the file|with tables of the same shapes"):
        load(model, save(other, tmp_path / "other", form))
