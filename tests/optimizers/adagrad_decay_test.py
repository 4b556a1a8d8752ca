import numpy as np
import pytest
import tensorflow as tf

from keras_sparse import EmbeddingVariable
from keras_sparse import native
from keras_sparse.optimizers import AdagradDecay
from optimizer_cases import slices

ONE = np.ones((1, 1), "float32")


def accumulators(table):
    ((_, records),) = table.export()
    return records[:, table.output_dim : 2 * table.output_dim]


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


def test_accumulators_decay_before_the_gradient_of_each_such_step():
    table = EmbeddingVariable(1, 1, initializer="zeros")
    optimizer = AdagradDecay(
        1.0,
        initial_accumulator_value=0.25,
        accumulator_decay_step=2,
        accumulator_decay_rate=0.5,
    )
    seen = []
    for _ in range(4):
        optimizer.apply([slices([0], ONE)], [table])
        seen.append(accumulators(table)[0, 0])
    np.testing.assert_array_equal(seen, [1.25, 1.625, 2.625, 2.3125])


def test_decays_that_a_row_has_missed_are_made_up_for():
    tables = [EmbeddingVariable(2, 1, initializer="zeros") for _ in range(2)]
    for table, others in zip(tables, ([0, 1], [1]), strict=True):
        optimizer = AdagradDecay(
            1.0, 0.25, accumulator_decay_step=1, accumulator_decay_rate=0.5, epsilon=0.0
        )
        optimizer.apply([slices([0], 4 * ONE)], [table])
        for _ in range(3):  # row 0 has no gradient, or one of zero
            values = np.float32([[0.0], [1.0]])[-len(others) :]
            optimizer.apply([slices(others, values)], [table])
        optimizer.apply([slices([0], ONE)], [table])
    left, right = (accumulators(table)[0] for table in tables)
    np.testing.assert_array_equal(left, right)
    # 16.25, with the first decay stopped at 0.25, halved four times
    np.testing.assert_array_equal(left, [16.25 / 16 + 1])
    np.testing.assert_array_equal(tables[0].numpy()[0], tables[1].numpy()[0])


def test_accumulators_do_not_decay_below_their_initial_value():
    table = EmbeddingVariable(2, 1, initializer="zeros")
    optimizer = AdagradDecay(1.0, 0.5, accumulator_decay_step=1, accumulator_decay_rate=0.25)
    optimizer.apply([slices([0], ONE)], [table])
    for _ in range(5):
        optimizer.apply([slices([1], ONE)], [table])
    optimizer.apply([slices([0], 0 * ONE)], [table])
    np.testing.assert_array_equal(accumulators(table)[0], [0.5])


def test_counts_decays_in_the_optimizers_steps_when_they_are_set():
    table = EmbeddingVariable(1, 1, initializer="zeros")
    optimizer = AdagradDecay(1.0, 0.5, accumulator_decay_step=10, accumulator_decay_rate=0.5)
    optimizer.apply([slices([0], np.float32([[8.0]]))], [table])
    optimizer.iterations.assign(29)
    optimizer.apply([slices([0], 0 * ONE)], [table])  # step 30: three decays
    np.testing.assert_array_equal(accumulators(table), [[64.5 / 8]])
    optimizer.iterations.assign(0)
    optimizer.apply([slices([0], 0 * ONE)], [table])
    np.testing.assert_array_equal(accumulators(table), [[64.5 / 8]])


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
