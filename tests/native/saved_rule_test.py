"""Records saved as they lie in a table's tiers, and what is saved to catch them up."""

import numpy as np
import pytest
import tensorflow as tf

from keras_sparse import EmbeddingVariable
from keras_sparse import native

ADAM = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}
MOMENTUM = {"momentum": 0.5, "nesterov": False}
RULES = {  # constants, and numbers beside the learning rate
    "adam": (ADAM, 1),
    "lion": ({"beta_1": 0.9, "beta_2": 0.99}, 0),
    "momentum": (MOMENTUM, 0),
    "sgd": ({}, 0),
}
# Ten steps after the hundredth: three at a rate of 1, seven at 2.
TEN_STEPS = native.RuleHistory(110, 100, 0, [3, 7], [[1.0], [2.0]])


def make_table(rule, weight_decay=0.0):
    table = EmbeddingVariable(3, 2, seed=1)
    table.table.set_rule(rule, RULES[rule][0], weight_decay)
    return table


def step(table, rate, ids=()):
    numbers = [[rate] * (1 + RULES[table.rule][1])]
    grads = tf.reshape(tf.cos(tf.range(2.0 * len(ids))), (len(ids), 2))
    native.apply_gradients([table], [tf.constant(ids, tf.int64)], [grads], numbers)


def records_of(table):
    records = np.empty((3, table.record_floats), "float32")
    for keys, piece in table.export():
        records[keys] = piece
    return records


def raw(records, last_step=None):
    """Returns records as they lie in a tier: a lazy rule's have the step behind row and slots."""
    words = [records.view(np.uint32)]
    if last_step is not None:
        words.append(np.full((len(records), 1), last_step % 2**32, np.uint32))
    return np.concatenate(words, 1).view("float32")


def history_of(table):
    (history,) = native.export_history([table])
    return history


def momentum_rule(**kwargs):
    history = {name: kwargs.pop(name) for name in native.RuleHistory._fields if name in kwargs}
    arguments = {"rule": "momentum", "constants": MOMENTUM, "weight_decay": 0.0, "output_dim": 1}
    return native.SavedRule(**{**arguments, **kwargs}, history=TEN_STEPS._replace(**history))


def test_history_is_what_the_rule_was_given():
    tables = [make_table("momentum"), make_table("sgd"), make_table("adam")]
    for rate in (1.0, 1.0, 2.0):
        step(tables[0], rate, [1])
    step(tables[1], 1.0, [1])
    histories = native.export_history(tables)
    assert [int(history.step) for history in histories] == [3, 1, 0]
    assert [int(history.first_step) for history in histories] == [0, 1, 0]
    assert [int(history.table_step) for history in histories] == [3, 1, 0]
    assert [history.run_lengths.numpy().tolist() for history in histories] == [[2, 1], [], []]
    np.testing.assert_array_equal(histories[0].numbers, [[1], [2]])
    assert [history.numbers.shape for history in histories] == [(2, 1), (0, 1), (0, 2)]


def test_a_restored_table_goes_on_as_the_saved_one():
    saved = make_table("adam", 0.1)
    for rate in (0.1, 0.2, 0.3):
        step(saved, rate, [0, 1])
    raw_keys, raw_records, _ = native.export_raw(saved, 0, 10)
    step(saved, 0.1, [2])
    restored = make_table("adam", 0.1)
    step(restored, 0.5, [1])
    native.restore(restored, history_of(saved))
    restored.import_(raw_keys, raw_records)
    restored.import_([2], records_of(saved)[[2]])
    for table in (saved, restored):
        step(table, 0.2, [0])
    np.testing.assert_array_equal(records_of(restored), records_of(saved))
    with pytest.raises(tf.errors.InvalidArgumentError, match="the steps that rule 'adam' rememb"):
        make_table("adam", 0.1).import_(raw_keys, raw_records)


def test_a_table_says_what_its_rule_was_made_from():
    table = EmbeddingVariable(3, 2).table
    assert (table.rule, table.rule_constants, table.rule_weight_decay) == (None, {}, 0.0)
    table.set_rule("momentum", MOMENTUM, 0.25)
    assert table.rule_constants == {"momentum": 0.5, "nesterov": 0.0}
    assert table.rule_weight_decay == 0.25


@pytest.mark.parametrize("first", [0x7F7FFFFE, 0x7FBFFFFE, 0xFF7FFFFE, 2**32 - 2])
def test_steps_whose_bits_are_no_number_come_through(first):
    rule = momentum_rule(step=first + 4, first_step=first, run_lengths=[4], numbers=[[1.0]])
    records = np.array([[0.0, 64.0]] * 5, "float32")
    words = np.concatenate([raw(records[[i]], first + i) for i in range(5)])
    caught_up = rule.catch_up(words).numpy()
    np.testing.assert_array_equal(caught_up, [[60, 4], [56, 8], [48, 16], [32, 32], [0, 64]])
    assert rule.catch_up(words[:0]).shape == (0, 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"rule": "momentums"}, "`rule` must be one of"),
        ({"constants": {}}, "`constants` of rule 'momentum' must be"),
        ({"numbers": [[1.0]]}, r"must be \(2, 1\), one row a run. Received: 1 numbers"),
        ({"numbers": [1.0, 2.0]}, r"`numbers` a matrix. Received: 1, 1, 1 and numbers.shape=\[2\]"),
    ],
)
def test_refuses_what_cannot_be_a_history_of_the_rule(arguments, words):
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        momentum_rule(**arguments)


@pytest.mark.parametrize(
    ("records", "words"),
    [
        (np.zeros((2, 4), "float32"), "`raw` must be 3 words wide.*Received: 4"),
        (np.zeros(3, "float32"), r"`raw` must be \(n, record_words\)|must be rank 2"),
        (raw(np.zeros((2, 2), "float32"), 99), r"in \[100, 110\].*records\[0\] of step 99"),
        (raw(np.zeros((2, 2), "float32"), 111), r"in \[100, 110\].*records\[0\] of step 111"),
    ],
)
def test_refuses_records_that_are_not_the_rules(records, words):
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        momentum_rule().catch_up(records)
