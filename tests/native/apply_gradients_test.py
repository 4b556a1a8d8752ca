import numpy as np
import pytest
import tensorflow as tf

from keras_sparse import EmbeddingVariable
from keras_sparse import native

ADAM = {"beta_1": 0.5, "beta_2": 0.5, "epsilon": 0.0}
MOMENTUM = {"momentum": 0.5, "nesterov": False}


def make_table(rule="sgd", constants=None, **kwargs):
    table = EmbeddingVariable(3, 1, initializer="zeros")
    table.table.set_rule(rule, constants or {}, **kwargs)
    return table


def apply(tables, numbers, ids=(1,)):
    ids = tf.constant(ids, tf.int64)
    grads = tf.ones((len(ids), 1))
    native.apply_gradients(tables, [ids] * len(tables), [grads] * len(tables), numbers)


def test_each_table_has_numbers_of_its_own():
    tables = [make_table(), make_table(weight_decay=0.5), make_table("momentum", MOMENTUM)]
    tables[1].assign(np.full((3, 1), 4.0))
    apply(tables, [[1.0], [0.5], [2.0]])
    np.testing.assert_array_equal([table.numpy()[1, 0] for table in tables], [-1, 2.5, -2])


def test_a_batch_without_ids_is_a_step_of_the_rule():
    table = make_table("momentum", MOMENTUM)
    apply([table], [[8.0]])
    apply([table], [[8.0]], ids=())
    np.testing.assert_array_equal(table.numpy(), [[0], [-12], [0]])
    apply([table], [[8.0]], ids=(0, 0))
    np.testing.assert_array_equal(table.numpy(), [[-16], [-14], [0]])


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([[1.0]], r"`numbers` must have one row a table, 2\. Received: numbers\.shape=\[1,1\]"),
        ([1.0, 1.0], r"`numbers` must have one row a table, 2\. Received: numbers\.shape=\[2\]"),
        ([[1.0], [1.0]], r"`numbers` of rule 'adam' must be 2\. Received: 1"),
        ([[1.0, 1.0], [1.0, 1.0]], r"`numbers` of rule 'sgd' must be 1\. Received: 2"),
    ],
)
def test_refuses_numbers_that_are_not_the_rules(numbers, words):
    tables = [make_table("adam" if "'adam'" in words else "sgd", ADAM if "'adam'" in words else {})]
    tables.append(make_table())
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        apply(tables, tf.constant(numbers))
    for table in tables:
        assert not table.numpy().any()


def test_a_refused_step_leaves_waiting_rows_and_all_tables_as_they_are():
    waiting, plain = make_table("momentum", MOMENTUM), make_table(weight_decay=1.0)
    apply([waiting], [[8.0]])
    before = waiting.numpy()
    with pytest.raises(tf.errors.InvalidArgumentError, match="`weight_decay` times the learning"):
        apply([waiting, plain], [[8.0], [1.0]])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"id must be in \[0, 3\)"):
        apply([waiting, plain], [[8.0], [0.5]], ids=(3,))
    np.testing.assert_array_equal(waiting.numpy(), before)
    apply([waiting], [[8.0]], ids=())
    np.testing.assert_array_equal(waiting.numpy(), [[0], [-12], [0]])


def test_set_rule_needs_a_weight_decay_for_each_table():
    message = r"`weight_decays` must have one number a table, 2\. Received: 1"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        native.set_rule([make_table(), make_table()], "sgd", {}, [0.0])


def test_set_rule_says_what_it_has_laid_out():
    tables = [make_table(), EmbeddingVariable(None, 3)]
    generations, widths, slot_names = native.set_rule(tables, "adam", ADAM, [0.0, 0.5])
    assert generations == [2, 1]
    assert widths == [3, 9]
    assert slot_names == ["momentum", "velocity"]
