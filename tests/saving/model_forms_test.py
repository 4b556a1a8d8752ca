"""A model of any form, loaded from a file of any format, predicts the same bits."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import layer_cases
from checkpoint_cases import reloaded
from keras_sparse.layers import Embedding
from layer_cases import FORMS
from layer_cases import LAYERS
from layer_cases import made
from layer_cases import train

IDS = np.random.default_rng(0).integers(0, 60, (8, 3))
LARGE = IDS + 2**40  # no float32 holds them
# The second goes by the names of layers, whatever the form of their model.
FILES = ["keras", "checkpoint"]


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
