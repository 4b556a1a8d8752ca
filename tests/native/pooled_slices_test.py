import numpy as np
import pytest
import tensorflow as tf

from keras_sparse import EmbeddingVariable
from keras_sparse import native
from keras_sparse.optimizers import Adagrad
from keras_sparse.optimizers import SGD

# Two bags, {7, 7} and {3}, and what the loss below makes of them.
IDS = tf.constant([7, 7, 3], tf.int64)
SPLITS = tf.constant([0, 2, 3], tf.int64)
SCALES = tf.constant([[1.0], [10.0]])
SUMS = {7: 2.0, 3: 10.0}


def make_table(input_dim=8):
    return EmbeddingVariable(input_dim, 1, initializer="zeros")


def gradient(table, calls=1, combiner="sum"):
    with tf.GradientTape() as tape:
        rows = [
            native.lookup([table], [IDS], row_splits=[SPLITS], combiners=[combiner])[0]
            for _ in range(calls)
        ]
        loss = tf.reduce_sum(SCALES * tf.add_n(rows))
    return tape.gradient(loss, [table])[0]


def sums(ids, values):
    total = {}
    for i, value in zip(ids.numpy().tolist(), values.numpy()[:, 0].tolist(), strict=True):
        total[i] = total.get(i, 0) + value
    return total


def operations(function, *args):
    graph = function.get_concrete_function(*args).graph
    return [operation.type for operation in graph.get_operations()]


@pytest.mark.parametrize("input_dim", [8, None])
def test_is_merged_slices_to_whoever_looks(input_dim):
    grad = gradient(make_table(input_dim))
    assert isinstance(grad, native.PooledSlices)
    assert grad.shape[1] == 1
    assert sums(grad.indices, grad.values) == SUMS
    assert len(grad.indices) == 2
    assert grad.values is grad.values


def gradient_around_a_function(table):
    rows = tf.function(
        lambda: native.lookup([table], [IDS], row_splits=[SPLITS], combiners=["sum"])
    )
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(SCALES * rows()[0])
    return tape.gradient(loss, [table])[0]


@pytest.mark.parametrize(
    ("gradient_of", "calls"),
    [
        (lambda table: tf.function(lambda: gradient(table))(), 1),
        (gradient_around_a_function, 1),
        (lambda table: gradient(table, calls=2), 2),
    ],
    ids=["returned", "around", "two calls"],
)
def test_adds_up_over_calls_and_functions(gradient_of, calls):
    grad = gradient_of(make_table())
    assert isinstance(grad, tf.IndexedSlices)
    assert sums(grad.indices, grad.values) == {i: calls * value for i, value in SUMS.items()}


def test_may_be_read_first_inside_a_branch():
    table = make_table()

    @tf.function
    def read(flag):
        grad = gradient(table)
        inside = tf.cond(flag, lambda: tf.reduce_sum(grad.values), lambda: 0.0)
        return inside, grad.indices, grad.values

    inside, ids, values = read(tf.constant(True))
    assert inside == 12
    assert sums(ids, values) == SUMS
    assert operations(read, tf.constant(True)).count("KerasSparseMergeGradients") == 1


def test_may_be_made_outside_of_the_function_that_reads_it():
    grad = gradient(make_table())
    assert tf.function(lambda: tf.reduce_sum(grad.values))() == 12
    assert sums(grad.indices, grad.values) == SUMS


def penalty(table, weight, pooled):
    """The gradient by `weight` of a loss on rows, plus the square of that loss's gradient."""
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            if pooled:
                (rows,) = native.lookup([table], [IDS], row_splits=[SPLITS], combiners=["sum"])
            else:
                rows = tf.math.segment_sum(native.lookup([table], [IDS])[0], [0, 0, 1])
            loss = tf.reduce_sum(weight * SCALES * rows)
        (grad,) = inner.gradient(loss, [table])
        total = loss + tf.reduce_sum(grad.values**2)
    return outer.gradient(total, weight)


@pytest.mark.parametrize("compile_step", [lambda f: f, tf.function], ids=["eager", "function"])
def test_second_derivatives_are_refused_and_not_left_out(compile_step):
    table, weight = make_table(), tf.Variable(3.0)
    # Rows 1 and 10 of SCALES, the first for two ids.
    assert compile_step(lambda: penalty(table, weight, pooled=False))() == 2 * 3 * (1 + 1 + 100)
    with pytest.raises(NotImplementedError, match="look rows up without a combiner"):
        compile_step(lambda: penalty(table, weight, pooled=True))()


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize(
    "arguments", [{}, {"clipvalue": 100.0}, {"loss_scale_factor": 4.0}], ids=str
)
def test_optimizers_move_rows_by_the_same_sums(combiner, arguments):
    pooled, merged = make_table(), make_table()
    grad = gradient(pooled, combiner=combiner)
    scale = arguments.get("loss_scale_factor", 1.0)
    Adagrad(0.5, **arguments).apply([grad], [pooled])
    values = tf.IndexedSlices(grad.values / scale, grad.indices, grad.dense_shape)
    Adagrad(0.5).apply([values], [merged])
    np.testing.assert_array_equal(pooled.numpy(), merged.numpy())


@pytest.mark.parametrize(("clipnorm", "merges"), [(None, 0), (1.0, 1)])
def test_a_step_merges_only_to_clip_and_then_once(clipnorm, merges):
    tables = [make_table(), make_table(None), make_table()]
    optimizer = SGD(1.0, clipnorm=clipnorm)
    optimizer.build(tables)

    @tf.function
    def step():
        optimizer.apply([gradient(table) for table in tables], tables)

    kinds = operations(step)
    assert kinds.count("KerasSparseMergeGradients") == merges
    assert kinds.count("KerasSparseApply") == 1


def test_an_update_refuses_gradients_of_another_width():
    table = make_table()
    table.table.set_rule("sgd", {})
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must be of shape \(3, 1\)"):
        native.apply_gradients([table], [IDS], [tf.ones((3, 2))], [[1.0]])
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"`output_grads` must be of shape \(2, 1\)"
    ):
        native.apply_gradients(
            [table], [IDS], [tf.ones((3, 1))], [[1.0]], [SPLITS], combiners=["sum"]
        )
    assert not table.numpy().any()


def test_gives_what_was_packed_in_the_order_of_ranks():
    ids = [tf.constant([2**62, -1], tf.int64), tf.zeros((0,), tf.int64)]
    first = native.pack_slices(ids, [tf.constant([[2.0], [4.0]]), tf.zeros((0, 3))], scale=0.5)
    second = native.pack_slices(ids[::-1], [tf.zeros((0, 1)), tf.ones((2, 3))])
    unpacked_ids, values = native.unpack_slices(tf.concat([first, second], axis=0), [1, 3], 2)
    for each in unpacked_ids:
        np.testing.assert_array_equal(each, [2**62, -1])
    np.testing.assert_array_equal(values[0], [[1], [2]])
    np.testing.assert_array_equal(values[1], np.ones((2, 3)))


def test_shapes_are_known_in_a_function():
    @tf.function
    def unpack(words):
        ids, values = native.unpack_slices(words, [1, 3], 2)
        assert [each.shape.as_list() for each in (*ids, *values)] == [
            [None],
            [None],
            [None, 1],
            [None, 3],
        ]
        return ids

    unpack.get_concrete_function(tf.TensorSpec((None,), tf.int32))


@pytest.mark.parametrize("values", [tf.ones((1, 2)), tf.ones(2), tf.ones((2, 1, 1))])
def test_refuses_values_that_are_not_a_row_an_id(values):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must be \(num_ids, width\)"):
        native.pack_slices([tf.constant([1, 2], tf.int64)], [values])


def test_refuses_what_no_rank_has_packed():
    words = native.pack_slices([tf.constant([1], tf.int64)], [tf.ones((1, 2))])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"rank 1 with 0 words"):
        native.unpack_slices(words, [2], 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must be of 2 tables"):
        native.unpack_slices(words, [2, 2], 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must be \(num_words\)"):
        native.unpack_slices(words[tf.newaxis], [2], 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="`widths` must be above 0"):
        native.unpack_slices(words, [0], 1)


def look_up_rows(table, weight):
    (rows,) = native.lookup([table], [IDS])
    return weight * tf.reduce_sum(rows)


def look_up_bags(table, weight, combiner="sum", dtype="float32"):
    options = {"row_splits": [SPLITS], "combiners": [combiner], "dtype": dtype}
    (rows,) = native.lookup([table], [IDS], **options)
    return weight * tf.reduce_sum(tf.cast(rows, "float32"))


def look_up_joined(table, weight):
    rows = native.lookup([table, table], [IDS, IDS], joined=True)
    return weight * tf.reduce_sum(rows * [1.0, 2.0])


def means(table, weight):
    return look_up_bags(table, weight, "mean")


def halves(table, weight):
    return look_up_bags(table, weight, dtype="float16")


@pytest.mark.parametrize("input_dim", [8, None])
@pytest.mark.parametrize(
    ("lookups", "num_gradients"),
    [
        ([look_up_bags], 1),
        ([look_up_bags, look_up_bags], 2),
        ([look_up_bags, look_up_rows, means], 3),
        ([look_up_joined], 2),
        ([look_up_joined, look_up_rows], 3),
        ([halves, halves], 2),
        ([halves, look_up_bags], 1),  # of one dtype alone
    ],
)
def test_an_update_takes_the_gradient_of_each_lookup(lookups, num_gradients, input_dim):
    optimizer = Adagrad(0.5, initial_accumulator_value=0.1)
    optimizer.build([reference := make_table(input_dim), table := make_table(input_dim)])

    def loss_of(a_table):
        return tf.add_n([look_up(a_table, 1.0 + i) for i, look_up in enumerate(lookups)])

    def step(a_table):
        with tf.GradientTape() as tape:
            loss = loss_of(a_table)
        optimizer.apply([tape.gradient(loss, a_table.value)], [a_table])

    in_function = tf.function(lambda: step(table))
    for _ in range(2):
        in_function()
        step(reference)
    np.testing.assert_allclose(table.find([3, 7]).rows, reference.find([3, 7]).rows, rtol=1e-6)
    assert (table.find([3, 7]).rows != 0).all()
    graph = in_function.get_concrete_function().graph
    (apply,) = [each for each in graph.get_operations() if each.type == "KerasSparseApply"]
    assert apply.get_attr("N") == num_gradients
    assert "KerasSparseMergeGradients" not in {each.op.type for each in apply.inputs}


def merged_together(table):
    """Gradients that one op has merged, of which one is this table's."""
    _, bags = native.merge_gradients([IDS, IDS], [tf.ones((3, 1)), 2 * tf.ones((3, 1))])
    return tf.IndexedSlices(tf.concat([bags[1], bags[1]], axis=0), tf.constant([3, 7, 3, 7]))


def cut_elsewhere(table):
    """Joined rows whose ids are joined of other pieces."""
    values = tf.concat([tf.ones((3, 1)), 2 * tf.ones((1, 1))], axis=0)
    return tf.IndexedSlices(values, tf.concat([IDS[:2], IDS[1:]], axis=0))


@pytest.mark.parametrize("make", [merged_together, cut_elsewhere])
def test_an_update_takes_joined_gradients_of_no_lookup_as_they_are(make):
    optimizer = SGD(1.0)
    optimizer.build([reference := make_table(), table := make_table()])
    optimizer.apply([make(reference)], [reference])
    tf.function(lambda: optimizer.apply([make(table)], [table]))()
    np.testing.assert_array_equal(table.find([3, 7]).rows, reference.find([3, 7]).rows)
    assert (table.find([3, 7]).rows != 0).all()
