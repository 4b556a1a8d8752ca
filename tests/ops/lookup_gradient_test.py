"""The gradient of a lookup, wherever TensorFlow asks for it."""

import numpy as np
import pytest
import tensorflow as tf

from keras_sparse import EmbeddingVariable
from keras_sparse import ops

IDS = tf.constant([3, 1, 3], tf.int64)


def lookup(variable):
    return ops.lookup([variable], [IDS])[0]


def twice(variable):
    return lookup(variable) + lookup(variable)


def nested(variable):
    return 2.0 * tf.function(lambda: lookup(variable))()


@pytest.mark.parametrize("rows_of", [twice, nested])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("tape_inside", [False, True])
def test_gradients_arrive(rows_of, compiled, tape_inside):
    variable = EmbeddingVariable(5, 2)
    weights = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

    def loss():
        return tf.reduce_sum(weights * rows_of(variable))

    def gradient(of=loss):
        with tf.GradientTape() as tape:
            value = of()
        return tf.convert_to_tensor(tape.gradient(value, variable.value))

    if not compiled:
        grad = gradient()
    elif tape_inside:
        grad = tf.function(gradient)()
    else:
        grad = gradient(tf.function(loss))
    expected = np.zeros((5, 2))
    np.add.at(expected, IDS, 2 * weights.numpy())
    np.testing.assert_array_equal(grad, expected)


def test_a_table_whose_rows_are_not_used_gets_zeros_or_none():
    tables = [EmbeddingVariable(5, 2) for _ in range(2)]
    with tf.GradientTape() as tape:
        rows = ops.lookup(tables, [IDS] * 2)
        loss = tf.reduce_sum(rows[0])
    used, unused = tape.gradient(loss, [each.value for each in tables])
    assert tf.reduce_sum(used.values) == 6
    assert unused is None or not tf.reduce_any(unused.values != 0)


def test_a_persistent_tape_gives_it_twice():
    variable = EmbeddingVariable(5, 2)
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.reduce_sum(lookup(variable))
    first, second = (tape.gradient(loss, variable.value) for _ in range(2))
    np.testing.assert_array_equal(first.values, second.values)
    np.testing.assert_array_equal(first.indices, IDS)


def test_a_lookup_is_one_op_however_many_tables_it_reads():
    tables = [EmbeddingVariable(5, 2) for _ in range(3)]
    step = tf.function(lambda ids: ops.lookup(tables, [ids] * 3))
    operations = step.get_concrete_function(IDS).graph.get_operations()
    beside = {"Placeholder", "Const", "Identity", "NoOp"}
    assert [each.type for each in operations if each.type not in beside] == ["KerasSparseLookup"]
    # No more identities than outputs of the function.
    assert sum(each.type == "Identity" for each in operations) == 3
