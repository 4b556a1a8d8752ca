import keras
import numpy as np
import pytest

from keras_sparse.layers import Embedding
from keras_sparse.layers import GroupEmbedding


def test_a_matrix_at_each_time_step():
    matrix = np.random.default_rng(1).integers(0, 20, (5, 3))
    layer = GroupEmbedding([Embedding(20, width) for width in (4, 1, 8)], output_mode="concat")
    steps = keras.Input((4, 3), dtype="int64")
    model = keras.Model(steps, keras.layers.TimeDistributed(layer)(steps))
    assert model.output_shape == (None, 4, 13)
    ids = np.stack([matrix] * 4, axis=1)
    expected = np.stack([layer(matrix)] * 4, axis=1)
    np.testing.assert_array_equal(model.predict(ids, verbose=0), expected)


@pytest.mark.parametrize(
    ("embeddings", "mode", "shapes", "expected"),
    [
        ([4, 4], "stack", (7, 2), (7, 2, 4)),
        ([4, 1], "concat", [(None,), (None,)], (None, 5)),
        ([4, 1], "list", [(7,), (7, 2)], [(7, 4), (7, 2, 1)]),
        ({"a": 4, "b": 1}, "list", {"a": (7,), "b": (7,)}, {"a": (7, 4), "b": (7, 1)}),
        (4, "list", (None, 3), (None, 3, 4)),
    ],
    ids=["matrix", "concat", "list", "dict", "one_layer"],
)
def test_shapes_of_outputs_are_known_without_inputs(embeddings, mode, shapes, expected):
    tables = keras.tree.map_structure(lambda width: Embedding(20, width), embeddings)
    assert GroupEmbedding(tables, output_mode=mode).compute_output_shape(shapes) == expected
