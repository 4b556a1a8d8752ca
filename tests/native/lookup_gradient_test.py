"""The gradient of a lookup, wherever TensorFlow asks for it."""

import subprocess

import numpy as np
import pytest
import tensorflow as tf

import forks
from keras_sparse import EmbeddingVariable
from keras_sparse import native

IDS = tf.constant([3, 1, 3], tf.int64)


def lookup(variable):
    return native.lookup([variable], [IDS])[0]


def twice(variable):
    return lookup(variable) + lookup(variable)


def nested(variable):
    return 2.0 * tf.function(lambda: lookup(variable))()


@pytest.mark.parametrize("rows_of", [twice, nested])
@pytest.mark.parametrize("tape", ["eager", "inside a function", "outside of one"])
def test_gradients_arrive(rows_of, tape):
    variable = EmbeddingVariable(5, 2)
    weights = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

    def loss():
        return tf.reduce_sum(weights * rows_of(variable))

    def gradient(of=loss):
        with tf.GradientTape() as recorded:
            value = of()
        return tf.convert_to_tensor(recorded.gradient(value, variable.value))

    if tape == "eager":
        grad = gradient()
    elif tape == "inside a function":
        grad = tf.function(gradient)()
    else:
        grad = gradient(tf.function(loss))
    expected = np.zeros((5, 2))
    np.add.at(expected, IDS, 2 * weights.numpy())
    np.testing.assert_array_equal(grad, expected)


def test_a_table_whose_rows_are_not_used_gets_zeros():
    tables = [EmbeddingVariable(5, 2) for _ in range(2)]
    with tf.GradientTape() as tape:
        rows = native.lookup(tables, [IDS] * 2)
        loss = tf.reduce_sum(rows[0])
    used, unused = tape.gradient(loss, [each.value for each in tables])
    assert tf.reduce_sum(used.values) == 6
    assert tf.reduce_sum(tf.abs(unused.values)) == 0


def test_a_persistent_tape_gives_it_twice():
    variable = EmbeddingVariable(5, 2)
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.reduce_sum(lookup(variable))
    first, second = (tape.gradient(loss, variable.value) for _ in range(2))
    np.testing.assert_array_equal(first.values, second.values)
    np.testing.assert_array_equal(first.indices, IDS)


def test_a_lookup_is_one_op_however_many_tables_it_reads():
    tables = [EmbeddingVariable(5, 2) for _ in range(3)]
    step = tf.function(lambda ids: native.lookup(tables, [ids] * 3))
    operations = step.get_concrete_function(IDS).graph.get_operations()
    beside = {"Placeholder", "Const", "Identity", "NoOp"}
    assert [each.type for each in operations if each.type not in beside] == ["KerasSparseLookup"]
    # No more identities than outputs of the function.
    assert sum(each.type == "Identity" for each in operations) == 3


WITH_TWO_DEVICES = """
import types

import tensorflow as tf

(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

from keras_sparse import EmbeddingVariable
from keras_sparse import ops
from keras_sparse.tables.gradient_anchor import make_gradient_anchor

with tf.device("CPU:1"):
    variable = EmbeddingVariable(5, 2)
anchor = make_gradient_anchor(types.SimpleNamespace(path="table", native=variable.native))
assert anchor.device == variable.native.device == variable.value.device, anchor.device


@tf.function
def gradient():
    with tf.GradientTape() as tape:
        (rows,) = ops.lookup([variable], [tf.constant([3], tf.int64)])
    return tape.gradient(rows, variable.value)


assert gradient().values.shape == (1, 2)
"""


@pytest.mark.slow("starts processes")
def test_an_anchor_is_where_its_table_is():
    subprocess.run([*forks.python(), "-c", WITH_TWO_DEVICES], check=True)


def in_cond(variable, factor):
    return tf.cond(factor > 0, lambda: factor * lookup(variable), lambda: tf.zeros((3, 2)))


def in_loop(variable, factor):
    rows = tf.zeros((3, 2))
    for _ in tf.range(2):
        rows += factor * lookup(variable)
    return rows


def in_map(variable, factor):
    return tf.map_fn(lambda _: factor * lookup(variable)[0], IDS, fn_output_signature=tf.float32)


@pytest.mark.parametrize("rows_of", [in_cond, in_loop, in_map])
@pytest.mark.parametrize("input_dim", [5, None])
@pytest.mark.parametrize("source", ["table", "factor"])
def test_a_gradient_from_outside_of_control_flow_says_where_to_take_it(rows_of, input_dim, source):
    variable, factor = EmbeddingVariable(input_dim, 2), tf.Variable(1.0)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(rows_of(variable, factor))
        return tape.gradient(loss, {"table": variable.value, "factor": factor}[source])

    with pytest.raises(NotImplementedError, match=r"must be taken inside too.*KerasSparseLookup"):
        step()


def test_a_gradient_is_taken_inside_of_control_flow():
    variable = EmbeddingVariable(5, 2)

    def branch():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(lookup(variable))
        return tf.convert_to_tensor(tape.gradient(loss, variable.value))

    grad = tf.function(lambda flag: tf.cond(flag, branch, lambda: tf.zeros((5, 2))))(
        tf.constant(True)
    )
    np.testing.assert_array_equal(grad, [[0, 0], [1, 1], [0, 0], [2, 2], [0, 0]])
