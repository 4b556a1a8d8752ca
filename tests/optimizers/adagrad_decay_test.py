import numpy as np
import pytest
import tensorflow as tf

from keras_sparse import EmbeddingVariable
from keras_sparse import native
from keras_sparse.optimizers import AdagradDecay


@pytest.mark.parametrize("input_dim", [6, None])
def test_gives_the_numbers_of_deeprec(input_dim):
    """From the tests of DeepRec's `AdagradDecayOptimizer` on embedding variables."""
    table = EmbeddingVariable(input_dim, 3, initializer="ones")
    optimizer = AdagradDecay(0.1, accumulator_decay_step=2)
    losses = []
    for _ in range(5):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(2 * native.lookup([table], [tf.range(6, dtype=tf.int64)])[0])
        optimizer.apply([tape.gradient(loss, table)], [table])
        losses.append(loss.numpy())
    expected = [36.0, 32.444176, 29.847788, 27.74195, 25.852505]
    np.testing.assert_allclose(losses, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"accumulator_decay_step": 0}, ValueError, "`accumulator_decay_step` must be above 0"),
        ({"accumulator_decay_step": 2.0}, TypeError, "must be an integer.*=2.0 of type float"),
        ({"accumulator_decay_rate": 0.0}, ValueError, "must be above 0 and below 1.*rate=0.0"),
        ({"accumulator_decay_rate": 1.0}, ValueError, "must be above 0 and below 1.*rate=1.0"),
        ({"accumulator_decay_rate": "0.9"}, TypeError, "must be a number.*rate='0.9'"),
        ({"accumulator_decay_rate": True}, TypeError, "must be a number.*rate=True"),
    ],
    ids=str,
)
def test_refuses_other_decays(arguments, error, words):
    with pytest.raises(error, match=words):
        AdagradDecay(0.1, **arguments)
