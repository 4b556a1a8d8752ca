import numpy as np
import pytest
import tensorflow as tf

from embedding_lookup_cases import dense
from embedding_lookup_cases import ROWS
from embedding_lookup_cases import run
from embedding_lookup_cases import table
from embedding_lookup_cases import with_values
from keras_sparse import ops

COMBINERS = ["sum", "mean", "sqrtn"]
IDS = tf.ragged.constant([[], [6, 1, 1], [0], [], [2, 6], []], dtype=tf.int64)
WEIGHTS = IDS.with_values(tf.constant([0.5, 2, 1, -3, 0.25, 4]))
NO_IDS = IDS[:0]
KEYS = [2**63 - 1, -(2**63), 2**53 + 1, 2**53]


def tensorflows(num_bags, combiner, max_norm):
    """TensorFlow's function, which leaves out the last bags if they are empty."""

    def read(variable, ids, weights):
        pooled = tf.nn.embedding_lookup_sparse(variable, ids, weights, combiner, max_norm)
        return tf.pad(pooled, [[0, num_bags - tf.shape(pooled)[0]], [0, 0]])

    return read


def check_equals_tensorflow(ids, weights, combiner, max_norm, input_dim=7):
    """Compares pooled rows and gradients, outside of a `tf.function` and inside."""
    num_bags = int(ids.shape[0])
    expected = run(tf.Variable(ROWS), ids, weights, tensorflows(num_bags, combiner, max_norm))
    variable = table(input_dim)

    def ours(ids, weights):
        return run(
            variable,
            ids,
            weights,
            lambda *args: ops.embedding_lookup_sparse(*args, combiner, max_norm),
        )

    for runner in (ours, tf.function(ours)):
        found = runner(ids, weights)
        assert found[0].shape == (num_bags, 3)
        for each, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(dense(each), dense(wanted), rtol=1e-4, atol=1e-5)


# All ways to pool; any value of the two other arguments with each of these, and with each other.
CASES = [
    ([7, None][(w + c + s) % 2], weights, combiner, [None, 0.9][(c // 2 + s) % 2], bool(s))
    for w, weights in enumerate([None, WEIGHTS.values])
    for c, combiner in enumerate([*COMBINERS, None])
    for s in range(2)
]


@pytest.mark.parametrize(("input_dim", "weights", "combiner", "max_norm", "is_sparse"), CASES)
def test_equals_tensorflow_in_rows_and_gradients(input_dim, weights, combiner, max_norm, is_sparse):
    ids = IDS.to_sparse() if is_sparse else IDS
    check_equals_tensorflow(ids, weights, combiner, max_norm, input_dim)


@pytest.mark.parametrize("is_sparse", [True, False])
@pytest.mark.parametrize("max_norm", [None, 0.9])
@pytest.mark.parametrize("weights", [None, WEIGHTS.values[:0]])
def test_an_empty_batch_gives_no_rows(weights, max_norm, is_sparse):
    ids = NO_IDS.to_sparse() if is_sparse else NO_IDS
    check_equals_tensorflow(ids, weights, "mean", max_norm)


@pytest.mark.parametrize("max_norm", [None, 0.9])
@pytest.mark.parametrize("combiner", COMBINERS)
def test_weights_that_add_up_to_nothing_pool_to_zeros(combiner, max_norm):
    variable = table()
    weights = tf.zeros((2,))
    with tf.GradientTape() as tape:
        tape.watch(weights)
        ids = tf.RaggedTensor.from_row_lengths(tf.constant([1, 2]), [2])
        pooled = ops.embedding_lookup_sparse(
            variable, ids, ids.with_values(weights), combiner, max_norm
        )
    np.testing.assert_array_equal(pooled, np.zeros((1, 3)))
    for grad in tape.gradient(pooled, [variable, weights]):
        assert np.isfinite(dense(grad)).all()


@pytest.mark.parametrize("max_norm", [None, 0.9])
def test_takes_sparse_ids_in_any_order(max_norm):
    ids = tf.SparseTensor([[1, 5], [0, 2], [1, 0]], tf.constant([3, 4, 5]), (3, 9))
    weights = with_values(ids, tf.constant([1.0, 10, 100]))
    pooled = ops.embedding_lookup_sparse(table(), ids, weights, "sum", max_norm)
    ids, weights = (tf.sparse.reorder(each) for each in (ids, weights))
    expected = ops.embedding_lookup_sparse(table(), ids, weights, "sum", max_norm)
    np.testing.assert_array_equal(pooled, expected)
    if max_norm is None:
        wanted = [10 * ROWS[4], ROWS[3] + 100 * ROWS[5], np.zeros(3)]
        np.testing.assert_allclose(pooled, wanted, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32", "uint64"])
def test_takes_ids_of_any_integer_dtype_and_weights_of_any_float_type(dtype):
    expected = ops.embedding_lookup_sparse(table(), IDS, WEIGHTS, "sum")
    for weights in (tf.cast(WEIGHTS, tf.float64), tf.cast(WEIGHTS, tf.float16)):
        pooled = ops.embedding_lookup_sparse(table(), tf.cast(IDS, dtype), weights, "sum")
        np.testing.assert_array_equal(pooled, expected)


@pytest.mark.parametrize("max_norm", [None, 100.0])
def test_tells_huge_keys_of_a_dynamic_table_apart(max_norm):
    variable = table(None, ROWS[:4], KEYS)
    for keys in (tf.constant(KEYS), np.array(KEYS, "int64").view("uint64")):
        ids = tf.RaggedTensor.from_row_lengths(keys, [1, 1, 0, 2])
        pooled = ops.embedding_lookup_sparse(variable, ids, None, "sum", max_norm)
        wanted = [ROWS[0], ROWS[1], np.zeros(3), ROWS[2] + ROWS[3]]
        np.testing.assert_allclose(pooled, wanted, rtol=1e-5)


def test_reads_batches_of_unknown_size_inside_a_function():
    variable = table()
    spec = tf.SparseTensorSpec((None, None), tf.int64)
    read = tf.function(lambda ids: ops.embedding_lookup_sparse(variable, ids, None), [spec])
    assert read.get_concrete_function().output_shapes.as_list() == [None, 3]
    for ids in (IDS, NO_IDS, IDS[3:4]):
        assert read(ids.to_sparse()).shape == (ids.shape[0], 3)


def test_counts_each_id_once_in_the_tables_stats():
    variable = table(None)
    for max_norm in (None, 1.0):
        before = variable.stats()["lookups"]
        ops.embedding_lookup_sparse(variable, IDS, WEIGHTS, max_norm=max_norm)
        assert variable.stats()["lookups"] == before + 6


def test_refuses_partitions_and_what_is_no_table():
    with pytest.raises(TypeError, match=r"`params` must be one.*in place of the partitions"):
        ops.embedding_lookup_sparse([table()], IDS, None)
    with pytest.raises(TypeError, match=r"`params` must be one.*type ResourceVariable"):
        ops.embedding_lookup_sparse(tf.Variable(ROWS), IDS, None)


@pytest.mark.parametrize("ids", [None, [[1]], tf.constant([[1]])])
def test_refuses_ids_that_are_neither_sparse_nor_ragged(ids):
    message = f"`sp_ids` must be a SparseTensor or a RaggedTensor.*type {type(ids).__name__}"
    with pytest.raises(TypeError, match=message):
        ops.embedding_lookup_sparse(table(), ids, None)


def test_refuses_ids_that_are_not_integers():
    for variable in (table(), table(None)):
        with pytest.raises(TypeError, match=r"`sp_ids` must be integers.*dtype float32"):
            ops.embedding_lookup_sparse(variable, WEIGHTS, None)


def test_refuses_ids_of_more_axes():
    deep = tf.ragged.constant([[[1], []]], dtype=tf.int64)
    for ids in (deep, deep.to_sparse(), tf.sparse.from_dense([1, 2])):
        with pytest.raises(ValueError, match=r"`sp_ids` must be 2-D.*safe_embedding_lookup_sp"):
            ops.embedding_lookup_sparse(table(), ids, None)


def test_refuses_weights_of_another_kind():
    for ids, weights in ((IDS, WEIGHTS.to_sparse()), (IDS.to_sparse(), WEIGHTS), (IDS, [1.0])):
        kinds = rf"type {type(weights).__name__}, sp_ids of type {type(ids).__name__}"
        with pytest.raises(TypeError, match=f"`sp_weights` must be None or of the kind.*{kinds}"):
            ops.embedding_lookup_sparse(table(), ids, weights)


def test_refuses_weights_at_other_places():
    with pytest.raises(ValueError, match=r"`sp_weights` must have the shape of `sp_ids`"):
        ops.embedding_lookup_sparse(table(), IDS, WEIGHTS[1:])
    moved = tf.RaggedTensor.from_row_lengths(WEIGHTS.values, [1, 2, 1, 0, 2, 0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="row_splits"):
        ops.embedding_lookup_sparse(table(), IDS, moved)
    ids, moved = tf.sparse.from_dense([[0, 1], [1, 1]]), tf.sparse.from_dense([[1.0, 1], [0, 1]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="indices"):
        ops.embedding_lookup_sparse(table(), ids, moved)


def test_refuses_other_combiners_and_norms_that_bound_nothing():
    with pytest.raises(ValueError, match=r"`combiner` must be one of .*combiner='max'"):
        ops.embedding_lookup_sparse(table(), IDS, None, "max")
    with pytest.raises(ValueError, match=r"`max_norm` must be above 0.*max_norm=0"):
        ops.embedding_lookup_sparse(table(), IDS, None, max_norm=0)


def test_refuses_an_id_outside_of_a_static_table():
    for max_norm in (None, 1.0):
        with pytest.raises(tf.errors.InvalidArgumentError, match="6"):
            ops.embedding_lookup_sparse(table(5, ROWS[:5]), IDS, None, max_norm=max_norm)
