import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies

import embedding_lookup_cases as cases
from embedding_lookup_cases import ROWS
from embedding_lookup_cases import table
from embedding_lookup_cases import with_values
from keras_sparse import ops
from pairwise import each_pair

COMBINERS = ["sum", "mean", "sqrtn"]
IDS = tf.ragged.constant([[], [6, -1, 1, 1], [-7], [], [2, 6], []], dtype=tf.int64)
POSITIVE = tf.constant([0.5, 2, 1, 3, 0.25, 4, 1])
MIXED = tf.constant([0.5, 2, 0, 3, 0.25, -4, -1])
# The same ids by (sample, feature, place).
DEEP_IDS = tf.SparseTensor(
    [[0, 0, 1], [0, 1, 0], [0, 1, 2], [1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 1, 2]],
    IDS.values,
    (3, 2, 4),
)
KEYS = [2**63 - 1, 2**53 + 1, 2**53]


def check_equals_tensorflow(ids, weights, options, *args):
    cases.check_equals_tensorflow(
        functools.partial(tf.nn.safe_embedding_lookup_sparse, **options),
        functools.partial(ops.safe_embedding_lookup_sparse, **options),
        ids,
        weights,
        *args,
    )


WRAPS = [lambda f: f, tf.function]
KINDS = {"ragged": IDS, "2-D": IDS.to_sparse(), "3-D": DEEP_IDS}
# With a sum, TensorFlow counts rows of weights of 0 and less.
POOLED = [(None, None), (None, "sqrtn"), (POSITIVE, "sum"), (MIXED, "mean"), (MIXED, "sqrtn")]


@each_pair(
    kind=KINDS,
    pooled=POOLED,
    default_id=[None, 4],
    max_norm=[None, 0.9],
    wrap=WRAPS,
    input_dim=[7, None],
)
def test_equals_tensorflow_in_rows_and_gradients(
    kind, pooled, default_id, max_norm, wrap, input_dim
):
    weights, combiner = pooled
    options = {"combiner": combiner, "default_id": default_id, "max_norm": max_norm}
    check_equals_tensorflow(KINDS[kind], weights, options, input_dim, [wrap])


NO_IDS = [IDS[:0], IDS[:0].to_sparse(), tf.sparse.from_dense(np.zeros((0, 2, 3), "int64"))]


@each_pair(ids=NO_IDS, weights=[None, POSITIVE[:0]], default_id=[None, 4], wrap=WRAPS)
def test_an_empty_batch_gives_no_rows(ids, weights, default_id, wrap):
    check_equals_tensorflow(ids, weights, {"default_id": default_id}, 7, [wrap])


@pytest.mark.parametrize("default_id", [None, 4])
def test_a_batch_of_nothing_but_empty_samples_gives_a_row_each(default_id):
    for ids in (IDS[:1], tf.sparse.from_dense(np.zeros((2, 2, 3), "int64"))):
        check_equals_tensorflow(ids, None, {"default_id": default_id})


def test_leaves_out_weights_not_above_0_from_sums_too():
    bags = tf.RaggedTensor.from_row_lengths(tf.constant([1, 2, 3, 4, 5]), [4, 1])
    weights = bags.with_values(tf.constant([2, 0, -3, np.nan, -1]))
    pooled = ops.safe_embedding_lookup_sparse(table(), bags, weights, "sum", default_id=6)
    np.testing.assert_allclose(pooled, [2 * ROWS[1], ROWS[6]], rtol=1e-6)


@settings(deadline=None, max_examples=40)
@given(
    bags=strategies.lists(
        strategies.lists(
            strategies.tuples(
                strategies.integers(-3, 6), strategies.sampled_from([-1.0, 0.0, 0.5, 2.0])
            ),
            max_size=4,
        ),
        max_size=4,
    ),
    is_sparse=strategies.booleans(),
    is_weighted=strategies.booleans(),
    combiner=strategies.sampled_from(COMBINERS),
    default_id=strategies.sampled_from([None, 0, 5]),
    max_norm=strategies.sampled_from([None, 0.9]),
)
def test_does_what_numpy_does(bags, is_sparse, is_weighted, combiner, default_id, max_norm):
    lengths = [len(bag) for bag in bags]
    flat = np.array([pair for bag in bags for pair in bag], "float32").reshape(-1, 2)
    ids = tf.RaggedTensor.from_row_lengths(flat[:, 0].astype("int64"), lengths)
    ids = ids.to_sparse() if is_sparse else ids
    weights = with_values(ids, tf.constant(flat[:, 1])) if is_weighted else None
    options = (combiner, default_id, max_norm)
    pooled = ops.safe_embedding_lookup_sparse(SHARED, ids, weights, *options)
    expected = [numpys(bag, is_weighted, *options) for bag in bags]
    np.testing.assert_allclose(pooled, np.reshape(expected, (-1, 3)), rtol=1e-5, atol=1e-6)


SHARED = table()


def numpys(bag, is_weighted, combiner, default_id, max_norm):
    """One sample's pooled row."""
    valid = [(i, w if is_weighted else 1) for i, w in bag if i >= 0 and (w > 0 or not is_weighted)]
    if not valid:
        valid = [] if default_id is None else [(default_id, 1)]
    rows = np.array([ROWS[i] for i, _ in valid]).reshape(-1, 3)
    if max_norm is not None:
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows * np.minimum(1, max_norm / norms)
    weights = np.array([w for _, w in valid])
    scale = {"sum": 1, "mean": weights.sum(), "sqrtn": np.sqrt((weights**2).sum())}[combiner]
    return weights @ rows / (scale or 1)


@pytest.mark.parametrize("max_norm", [None, 100.0])
def test_tells_huge_keys_of_a_dynamic_table_apart(max_norm):
    variable = table(None, ROWS[:3], KEYS)
    ids = tf.RaggedTensor.from_row_lengths(tf.constant(KEYS), [1, 0, 2])
    pooled = ops.safe_embedding_lookup_sparse(
        variable, ids, None, "sum", default_id=2**53 + 1, max_norm=max_norm
    )
    np.testing.assert_allclose(pooled, [ROWS[0], ROWS[1], ROWS[1] + ROWS[2]], rtol=1e-5)


def test_no_uint64_is_below_0():
    variable = table(None, ROWS[:2], [-1, -(2**63)])
    ids = tf.RaggedTensor.from_row_lengths(np.array([2**64 - 1], "uint64"), [0, 1])
    for default_id in (-(2**63), 2**63, np.uint64(2**63)):
        pooled = ops.safe_embedding_lookup_sparse(variable, ids, default_id=default_id)
        np.testing.assert_array_equal(pooled, ROWS[[1, 0]])


@pytest.mark.parametrize("rank", [3, None])
def test_reads_batches_of_unknown_size_inside_a_function(rank):
    variable = table()
    spec = tf.SparseTensorSpec(None if rank is None else [None] * rank, tf.int64)
    read = tf.function(lambda ids: ops.safe_embedding_lookup_sparse(variable, ids), [spec])
    shape = read.get_concrete_function().output_shapes
    assert shape.rank == rank
    assert rank is None or shape[-1] == 3
    expected = ops.safe_embedding_lookup_sparse(variable, DEEP_IDS)
    np.testing.assert_array_equal(read(DEEP_IDS), expected)
