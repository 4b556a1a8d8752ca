"""Initial rows in TensorFlow's ops are those of the native tables, to the last bit."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse import native
from keras_sparse.saved_model.initial_rows import initial_rows

KEYS = np.concatenate(
    [
        [0, 1, -1, 2**63 - 1, -(2**63), 2**32, -(2**32)],
        np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 2000),
    ]
)
INITIALIZERS = {
    "zeros": "zeros",
    "constant": keras.initializers.Constant(0.1),
    "uniform": "uniform",
    "falling uniform": keras.initializers.RandomUniform(0.3, -0.7),
    "of no width": keras.initializers.RandomUniform(0.3, 0.3),
    "narrow uniform": keras.initializers.RandomUniform(1.0, 1.0000001),
    "normal": keras.initializers.RandomNormal(0.5, 3.0),
    "truncated normal": keras.initializers.TruncatedNormal(-2.0, 0.01),
    "glorot": "glorot_uniform",
}


@pytest.mark.parametrize("seed", [0, -5, 2**62 + 12345])
@pytest.mark.parametrize("name", INITIALIZERS)
def test_rows_have_the_bits_of_a_native_table(name, seed):
    table = keras_sparse.EmbeddingVariable(None, 7, INITIALIZERS[name], seed=seed)
    (expected,) = native.lookup([table], [tf.constant(KEYS)])
    fields = table.table.initial_rows.saved_fields()

    def rows(keys):
        return initial_rows(keys, **fields, output_dim=7)

    np.testing.assert_array_equal(_bits(rows(tf.constant(KEYS))), _bits(expected))
    if seed > 0:  # in a graph TensorFlow's optimizers have rewritten the ops
        found = tf.function(rows, [tf.TensorSpec([None], tf.int64)])(tf.constant(KEYS))
        np.testing.assert_array_equal(_bits(found), _bits(expected))


@pytest.mark.parametrize("output_dim", [1, 4, 5, 33])
def test_rows_of_any_width_and_number(output_dim):
    table = keras_sparse.EmbeddingVariable(None, output_dim, "normal", seed=3)
    fields = table.table.initial_rows.saved_fields()
    for keys in (KEYS[:9], KEYS[:0]):
        (expected,) = native.lookup([table], [tf.constant(keys)])
        found = initial_rows(tf.constant(keys), **fields, output_dim=output_dim)
        assert found.shape == (len(keys), output_dim)
        np.testing.assert_array_equal(_bits(found), _bits(expected))


def _bits(rows):
    return np.asarray(rows).view(np.uint32)
