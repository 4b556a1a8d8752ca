import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse import EmbeddingVariable
from keras_sparse.optimizers import Adagrad
from keras_sparse.optimizers import Nadam
from keras_sparse.optimizers import SGD
from keras_sparse.optimizers import split_embedding_variable_from_others
from optimizer_cases import first_row
from optimizer_cases import kernel
from optimizer_cases import ones_for
from optimizer_cases import zeros_table

# Which variables a step has.


@pytest.mark.parametrize(
    "make", [[zeros_table], [kernel], [kernel, zeros_table, kernel, zeros_table]], ids=len
)
def test_counts_a_step_once_whatever_the_variables(make):
    variables = [each() for each in make]
    grads = [ones_for(0) if each is zeros_table else tf.ones(1) for each in make]
    optimizer = SGD(0.5)
    for step in range(1, 4):
        optimizer.apply(grads, variables)
        assert optimizer.iterations.numpy() == step
    for each, variable in zip(make, variables, strict=True):
        value = first_row(variable) if each is zeros_table else variable.numpy()[0]
        assert value == -1.5


def test_apply_without_variables_takes_those_it_was_built_on():
    variables = [zeros_table(), kernel(), zeros_table(None)]
    optimizer = SGD(1.0)
    optimizer.build(variables)
    optimizer.apply([ones_for(0), tf.constant([5.0]), ones_for(0, 0, 0)])
    assert first_row(variables[0]) == -1
    assert variables[1].numpy() == [-5]
    assert first_row(variables[2]) == -3


def test_apply_without_variables_needs_a_gradient_for_each():
    optimizer = SGD(1.0)
    optimizer.build([zeros_table(), kernel()])
    with pytest.raises(ValueError, match=r"one gradient a variable. Received: 1 gradients for 2"):
        optimizer.apply([ones_for(0)])


def test_apply_before_build_needs_variables():
    with pytest.raises(ValueError, match="must already be built"):
        SGD(1.0).apply([ones_for(0)])


def test_a_subset_of_the_variables_may_be_updated():
    tables = [zeros_table(), zeros_table()]
    optimizer = SGD(1.0)
    optimizer.build(tables)
    optimizer.apply([ones_for(0)], [tables[1]])
    assert [first_row(table) for table in tables] == [0, -1]


def test_variables_without_a_gradient_are_left_out_with_keras_warning():
    variables = [zeros_table(name="first"), zeros_table(name="second"), kernel()]
    optimizer = SGD(1.0)
    with pytest.warns(UserWarning, match=r"Gradients do not exist for variables \['first'"):
        optimizer.apply([None, ones_for(0), None], variables)
    assert [first_row(table) for table in variables[:2]] == [0, -1]
    assert optimizer.iterations.numpy() == 1


def test_a_step_that_a_table_refuses_changes_no_dense_variable():
    variables = [kernel(), zeros_table()]
    optimizer = SGD(1.0, weight_decay=0.1)
    variables[0].assign([1.0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="id must be in"):
        optimizer.apply([tf.ones(1), ones_for(1000)], variables)
    assert variables[0].numpy() == 1  # it would have decayed
    assert optimizer.iterations.numpy() == 0


@pytest.mark.parametrize("others", [[kernel], []], ids=len)
def test_a_variable_that_is_overwritten_counts_in_no_norm_and_no_update(others):
    """As the scales of float8 layers in Keras, whose gradients are their next values."""
    scale = kernel()
    scale.overwrite_with_gradient = True
    variables = [zeros_table(), scale, *(make() for make in others)]
    alone = [zeros_table(), *(make() for make in others)]
    of_all, of_two = (Nadam(0.5, global_clipnorm=1.0) for _ in range(2))
    for step in range(3):
        grads = [ones_for(0), *(tf.constant([2.0]) for _ in others)]
        of_all.apply([grads[0], tf.constant([100.0 + step]), *grads[1:]], variables)
        of_two.apply(grads, alone)
    assert scale.numpy() == 102
    assert first_row(variables[0]) == first_row(alone[0])
    assert of_all.iterations.numpy() == 3


@pytest.mark.parametrize("option", ["clipnorm", "global_clipnorm", "clipvalue"])
def test_a_limit_below_0_is_none_as_in_keras(option):
    table, weights = zeros_table(), kernel()
    SGD(1.0, **{option: -1.0}).apply([ones_for(0), tf.constant([3.0])], [table, weights])
    assert (first_row(table), weights.numpy()[0]) == (-1, -3)


def test_a_tensorflow_variable_without_a_gradient_is_named():
    variables = [zeros_table(), tf.Variable([1.0], name="plain")]
    with pytest.warns(UserWarning, match="Gradients do not exist for variables.*plain"):
        SGD(1.0).apply([ones_for(0), None], variables)


def test_an_optimizer_with_an_apply_of_its_own_is_asked_by_it():
    class Counting(SGD):
        calls = 0

        def apply(self, *args):
            type(self).calls += 1
            super().apply(*args)

    variables = [zeros_table(name="table"), kernel()]
    several = keras_sparse.optimizers.MultiOptimizer({"embeddings": Counting(1.0), "others": "sgd"})
    several.apply([ones_for(0), tf.ones(1)], variables)
    assert Counting.calls == 1
    assert first_row(variables[0]) == -1


def test_no_gradient_at_all_is_keras_error():
    with pytest.raises(ValueError, match="No gradients provided for any variable"):
        SGD(1.0).apply([None], [zeros_table()])


def test_no_variables_is_no_step():
    optimizer = SGD(1.0)
    optimizer.apply([])
    assert optimizer.iterations.numpy() == 0


def test_an_empty_batch_is_a_step_that_moves_nothing():
    table, optimizer = zeros_table(), Adagrad(1.0, global_clipnorm=1.0)
    optimizer.apply([ones_for()], [table])
    assert optimizer.iterations.numpy() == 1
    np.testing.assert_array_equal(table.numpy(), np.zeros((4, 2)))


@pytest.mark.parametrize("option", ["clipnorm", "global_clipnorm"])
def test_norms_leave_out_ids_that_have_no_row(option):
    table = keras_sparse.EmbeddingVariable(4, 2, initializer="zeros", out_of_range="zero")
    gradient = tf.IndexedSlices([[3.0, 4.0], [9.0, 9.0], [9.0, 9.0]], [0, 4, -1], [4, 2])
    SGD(1.0, **{option: 1.0}).apply([gradient], [table])
    np.testing.assert_allclose(table.numpy()[0], [-0.6, -0.8], rtol=1e-6)


def test_takes_int32_ids_and_float16_values():
    table = zeros_table()
    gradient = tf.IndexedSlices(tf.ones((1, 2), tf.float16), tf.constant([0]), (4, 2))
    SGD(1.0).apply([gradient], [table])
    assert first_row(table) == -1


@pytest.mark.parametrize("make", [zeros_table, kernel])
def test_takes_iterators(make):
    variable, gradient = make(), {zeros_table: ones_for(0), kernel: tf.ones(1)}[make]
    optimizer = SGD(1.0)
    optimizer.apply(iter([gradient]), iter([variable]))
    optimizer.apply(iter([gradient]))
    assert optimizer.iterations.numpy() == 2


def test_apply_gradients_takes_pairs():
    table, optimizer = zeros_table(), SGD(1.0)
    optimizer.apply_gradients(zip([ones_for(0)], [table], strict=True))
    assert first_row(table) == -1


def test_one_native_op_serves_all_tables_of_a_step():
    variables = [zeros_table(), kernel(), zeros_table(None), zeros_table()]
    optimizer = Adagrad(1.0)
    optimizer.build(variables)
    step = tf.function(lambda: optimizer.apply([ones_for(0), tf.ones(1), ones_for(1), ones_for(2)]))
    types = [op.type for op in step.get_concrete_function().graph.get_operations()]
    assert types.count("KerasSparseApply") == 1


def test_its_variables_are_those_keras_saves():
    optimizer = Adagrad(1.0)
    optimizer.build([zeros_table(), kernel()])
    names = [variable.name for variable in optimizer.variables]
    assert names == ["iteration", "learning_rate", "kernel_accumulator"]


# The learning rate.


def test_a_new_learning_rate_needs_no_new_trace():
    table, optimizer = zeros_table(), SGD(1.0)
    optimizer.build([table])
    num_traces = 0

    @tf.function
    def step():
        nonlocal num_traces
        num_traces += 1
        optimizer.apply([ones_for(0)])

    for rate in (1.0, 10.0, 100.0):
        optimizer.learning_rate = rate
        step()
    assert first_row(table) == -111
    assert num_traces == 1


def test_a_callable_learning_rate_is_asked_once_a_step():
    rates = iter([1.0, 10.0, 100.0])
    table, optimizer = zeros_table(), SGD(lambda: next(rates))
    for _ in range(3):
        optimizer.apply([ones_for(0)], [table])
    assert first_row(table) == -111


def test_splits_by_kind_in_order():
    tables = [EmbeddingVariable(2, 1), EmbeddingVariable(None, 1)]
    others = [keras.Variable([1.0]), keras.Variable([2.0])]
    mixed = (others[0], tables[0], tables[1], others[1])
    embedding, rest = split_embedding_variable_from_others(iter(mixed))
    assert [id(v) for v in embedding] == [id(v) for v in tables]
    assert [id(v) for v in rest] == [id(v) for v in others]


def test_takes_no_variables():
    assert split_embedding_variable_from_others([]) == ([], [])
