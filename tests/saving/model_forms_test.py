"""A model of any form, loaded from a file of any format, predicts the same bits."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import layer_cases
from keras_sparse.layers import Embedding
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import save_checkpoint
from layer_cases import FORMS
from layer_cases import LAYERS
from layer_cases import made
from layer_cases import train

IDS = np.random.default_rng(0).integers(0, 60, (8, 3))
LARGE = IDS + 2**40  # no float32 holds them


def loads(model, form, case, ids, folder):
    """The model, loaded from a file of each format, by the name of it."""
    model.save(folder / "model.keras")
    yield ".keras", keras.saving.load_model(folder / "model.keras")
    model.save_weights(folder / "model.weights.h5")
    other = made(form, case, ids)
    other.load_weights(folder / "model.weights.h5")
    yield ".weights.h5", other
    save_checkpoint(model, folder / "checkpoint")
    other = made(form, case, ids)
    load_checkpoint(other, folder / "checkpoint")
    yield "checkpoint", other


# What is first in a sequential model without an `Input` is to refuse its guess, as ours do.
@pytest.mark.parametrize(
    ("form", "case"),
    [(f, c) for f in FORMS for c in LAYERS if (f, c) != ("sequential", "own_lookup")],
)
def test_predicts_the_same_bits_and_trains_on(form, case, tmp_path):
    ids = tf.constant(IDS if case in layer_cases.STATIC else LARGE)
    model = made(form, case, ids)
    train(model, ids)
    expected = np.asarray(model(ids))
    loaded = dict(loads(model, form, case, ids, tmp_path))
    for name, other in loaded.items():
        np.testing.assert_array_equal(other(ids), expected, err_msg=name)
    train(model, ids)
    for name, other in loaded.items():
        train(other, ids)
        np.testing.assert_array_equal(other(ids), model(ids), err_msg=name)


def test_a_sequential_model_without_an_input_keeps_large_keys():
    model = keras.Sequential([Embedding(None, 2, "sum"), keras.layers.Dense(1)])
    model.compile(keras_sparse.optimizers.SGD(0.5), loss="mse")
    model.fit(LARGE, np.ones((8, 1)), verbose=0)
    ((keys, _),) = model.layers[0].embeddings.export()
    assert set(keys) == set(LARGE.flat)
