import numpy as np
import pytest
import tensorflow as tf

import checks
from keras_sparse import EmbeddingVariable
from keras_sparse import native
from keras_sparse.native import library


def table(input_dim, dim, **kwargs):
    rows = np.arange(5 * dim, dtype="float32").reshape(5, dim)
    variable = EmbeddingVariable(input_dim, dim, **kwargs)
    variable.import_(np.arange(5), rows)
    return variable, rows


def int64(values):
    return tf.constant(values, tf.int64)


def test_reads_several_tables_in_one_call():
    (static, static_rows), (dynamic, dynamic_rows) = table(5, 2), table(None, 3)
    outputs = native.lookup(
        [static, dynamic, static],
        [int64([4, 0]), int64([1, 2, 3]), int64([1])],
        row_splits=[None, int64([0, 2, 2, 3]), None],
        combiners=[None, "mean", None],
    )
    np.testing.assert_array_equal(outputs[0], static_rows[[4, 0]])
    expected = [dynamic_rows[1:3].mean(0), np.zeros(3), dynamic_rows[3]]
    np.testing.assert_array_equal(outputs[1], expected)
    np.testing.assert_array_equal(outputs[2], static_rows[[1]])


def test_gives_each_table_its_gradient_and_a_frozen_one_none():
    (left, _), (frozen, _), (right, _) = table(5, 2), table(5, 2, trainable=False), table(None, 3)
    weights = tf.Variable([1.0, 2.0, 4.0])
    with tf.GradientTape() as tape:
        outputs = native.lookup(
            [left, frozen, right],
            [int64([4, 0]), int64([1]), int64([3, 1, 3])],
            row_splits=[None, None, int64([0, 3])],
            weights=[None, None, tf.convert_to_tensor(weights)],
            combiners=[None, None, "sum"],
        )
        loss = sum(tf.reduce_sum(rows) for rows in outputs)
    grads = tape.gradient(loss, [left, frozen, right, weights])
    np.testing.assert_array_equal(grads[0].indices, [4, 0])
    assert grads[1] is None
    merged = dict(zip(grads[2].indices.numpy(), grads[2].values.numpy()[:, 0], strict=True))
    assert merged == {1: 2, 3: 5}
    np.testing.assert_array_equal(grads[3], [30, 12, 30])


def test_reads_wait_for_updates_inside_a_function():
    variable, rows = table(5, 1)
    variable.table.set_rule("sgd", {})

    @tf.function
    def step():
        (before,) = native.lookup([variable], [int64([2])])
        native.apply_gradients([variable], [int64([2])], [tf.ones((1, 1))], [[1.0]])
        (after,) = native.lookup([variable], [int64([2])])
        return before, after

    for done in range(5):
        before, after = step()
        assert (before, after) == (rows[2] - done, rows[2] - done - 1)


def test_reads_do_not_wait_for_each_other_inside_a_function():
    variable, _ = table(5, 1)

    @tf.function
    def step():
        first = native.lookup([variable], [int64([2])])
        native.apply_gradients([variable], [int64([2])], [tf.ones((1, 1))], [[1.0]])
        return first, *(native.lookup([variable], [int64([2])]) for _ in range(2))

    variable.table.set_rule("sgd", {})
    nodes = step.get_concrete_function().graph.get_operations()
    reads = [node for node in nodes if node.type == "KerasSparseLookup"]
    (update,) = [node for node in nodes if node.type == "KerasSparseApply"]
    assert update.control_inputs == [reads[0]]
    assert [read.control_inputs for read in reads] == [[], [update], [update]]


def test_a_tape_outside_of_a_function_passes_by_a_frozen_table():
    variable, rows = table(5, 1)
    variable.trainable = False
    weight = tf.Variable(2.0)
    step = tf.function(lambda ids: native.lookup([variable], [ids])[0] * weight)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(step(int64([2, 3])))
    assert tape.gradient(loss, weight) == rows[2] + rows[3]


def test_reading_creates_no_rows():
    variable, _ = table(None, 2)
    before = checks.table_content(variable)
    native.lookup([variable], [int64([-1, 77])])
    assert checks.table_content(variable) == before


def test_weights_have_a_gradient_only_while_the_rows_are_those_looked_up():
    variable, rows = table(5, 1)
    variable.table.set_rule("sgd", {})
    weights = tf.Variable([1.0, 1.0])
    with tf.GradientTape(persistent=True) as tape:
        (pooled,) = native.lookup(
            [variable], [int64([2, 4])], [int64([0, 2])], [tf.convert_to_tensor(weights)], ["sum"]
        )
    np.testing.assert_array_equal(tape.gradient(pooled, weights), rows[[2, 4], 0])
    native.apply_gradients([variable], [int64([4])], [tf.ones((1, 1))], [[1.0]])
    with pytest.raises(tf.errors.FailedPreconditionError, match="before the table is updated"):
        tape.gradient(pooled, weights)


def test_reads_no_tables():
    assert native.lookup([], []) == []


IDS, BAG, INVALID = [int64([1, 2])], [int64([0, 2])], tf.errors.InvalidArgumentError


@pytest.mark.parametrize(
    ("lists", "error", "words"),
    [
        *[
            (([tf.cast([1], each)],), TypeError, f"tf.int64.*Received: ids of dtype {each}")
            for each in ("int32", "uint64", "float32")
        ],
        (([],), ValueError, "`variables`, `ids` must have one element per table"),
        *[((IDS, [int64(each)]), INVALID, "row_splits") for each in ([0, 3], [1, 2], [0, 2, 1, 2])],
        (
            (IDS, BAG, [tf.zeros((0,))]),
            ValueError,
            r"one number per id.*weights of shape \(0,\), ids of shape \(2,\)",
        ),
    ],
)
def test_refuses_lists_that_do_not_fit(lists, error, words):
    combiners = ["sum"] if len(lists) > 1 else None
    with pytest.raises(error, match=words):
        native.lookup([table(5, 2)[0]], *lists, combiners=combiners)


def test_merges_the_gradients_of_equal_ids():
    ids, sums = native.merge_gradients(
        [int64([7, -1, 7]), int64([3])],
        [tf.constant([[1.0], [2.0], [4.0]]), tf.ones((1, 2))],
    )
    merged = dict(zip(ids[0].numpy(), sums[0].numpy()[:, 0], strict=True))
    assert merged == {7: 5, -1: 2}
    np.testing.assert_array_equal(sums[1], [[1, 1]])


def test_merged_gradients_have_as_many_entries_of_an_id_as_are_asked_for():
    (ids,), (sums,) = native.merge_gradients(
        [int64([7, -1, 7, 7])], [tf.constant([[1.0], [2.0], [4.0], [8.0]])], max_entries=[2]
    )
    np.testing.assert_array_equal(ids, [7, 7, -1])
    np.testing.assert_array_equal(sums, [[13], [0], [2]])
    assert np.signbit(sums[1, 0])


@pytest.mark.parametrize("max_entries", [[0], [-1], [1, 1], [1] * 7])
@pytest.mark.parametrize("decorate", [tf.function, lambda merge: merge])
def test_refuses_numbers_of_entries_that_are_none(max_entries, decorate):
    @decorate
    def merge():
        return native.merge_gradients([int64([7])], [tf.ones((1, 1))], max_entries=max_entries)

    words = r"`max_entries` must have one number above 0 a table.*Received: \[.*\] for 1 tables"
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        merge()


@pytest.mark.parametrize("number", [-1, 1])
def test_the_op_refuses_numbers_of_no_table(number):
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"`updated`.*Received: {number}\s"):
        library.lib.keras_sparse_lookup(
            handles=[table(5, 2)[0].native],
            ids=[int64([1])],
            row_splits=[int64([])],
            weights=[tf.zeros(0)],
            anchors=[],
            num_outputs=1,
            combiners=["none"],
            output_dims=[2],
            gradient_rows=[5],
            trained=[],
            updated=[number],
            weighted=[],
        )
