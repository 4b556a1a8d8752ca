"""The code of the page for those who come from SOK or DeepRec runs as it stands there."""

import pathlib
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "guide" / "from-sok-and-deeprec.md"
# Of the systems that it is about, whose code is shown before ours.
THEIRS = ("sok.", "tf.get_embedding_variable")


def snippets():
    """Our code, in the order of the page."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [block for block in blocks if not any(name in block for name in THEIRS)]


def ragged(*rows):
    return tf.ragged.constant(rows, dtype=tf.int64)


@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed")  # by Keras, of any dataset
def test_every_snippet_runs():
    own_layer, sparse_layer, group_layer, lookup, scope = snippets()
    names = {"keras": keras, "keras_sparse": keras_sparse}
    keys = np.random.default_rng(0).integers(-(2**62), 2**62, (4, 100, 10))
    batches = tf.data.Dataset.from_tensor_slices((keys, np.ones((4, 1)))).batch(2)
    names["dataset"] = batches
    exec(own_layer, names)
    assert names["vectors"].shape == (None, 100, 10, 16)
    assert names["layer"].stats()["embeddings"]["rows"] == keys.size

    names["sparse_keys"] = ragged([1, 2], *[[]] * 24, [3]).to_sparse()
    exec(sparse_layer, names)
    assert names["vectors"].shape == (1, 26, 16)
    assert np.any(names["vectors"][0, 0])
    assert not np.any(names["vectors"][0, 1])

    user, films = ragged([1, 2], [3]), ragged([7], [])
    names["features"] = {"user": user, "films": films, "last": ragged([5, 6], [7])}
    names["user_weights"] = tf.ragged.constant([[1.0, 2.0], [0.5]])
    exec(group_layer, names)
    assert names["rows"]["user"].shape == (2, 16)
    assert names["rows"]["films"].shape == (2, 64)
    assert names["rows"]["last"].shape[2] == 8

    names |= {"user_ids": user.to_sparse(), "film_ids": films.to_sparse()}
    exec(lookup, names)
    assert [each.shape for each in names["rows"]] == [(2, 16), (2, 64)]

    inputs = {
        name: keras.Input((None,), dtype="int64", ragged=True, name=name)
        for name in ("user", "films")
    }
    names["features"] = inputs
    exec(scope, names)
    model = keras.Model(inputs, [names["user"], names["films"]])
    (group,) = (layer for layer in model.layers if layer.weights)
    assert isinstance(group, keras_sparse.layers.GroupEmbedding)
    outputs = model({"user": user, "films": films})
    assert [each.shape for each in outputs] == [(2, 16), (2, 64)]
