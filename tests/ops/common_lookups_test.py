"""Refusals, counts and keys of the lookups that have the names of those of `tf.nn`."""

import numpy as np
import pytest
import tensorflow as tf

from embedding_lookup_cases import ROWS
from embedding_lookup_cases import table
from keras_sparse import ops

IDS = tf.ragged.constant([[6, 1, 1], [], [0]], dtype=tf.int64)
WEIGHTS = IDS.with_values(tf.constant([0.5, 2, 1, -3]))
MOVED = tf.RaggedTensor.from_row_lengths(WEIGHTS.values, [2, 1, 1])
DEEP = tf.ragged.constant([[[1], []]], dtype=tf.int64)
PLACES = tf.sparse.from_dense([[0, 1], [1, 1]])
MOVED_PLACES = tf.sparse.from_dense([[1.0, 1], [0, 1]])
FLAT = tf.sparse.from_dense([1, 2])
INVALID = tf.errors.InvalidArgumentError


def kinds(weights, ids):
    words = f"type {type(weights).__name__}, sp_ids of type {type(ids).__name__}"
    return (ids, weights), TypeError, f"`sp_weights` must be None or of the kind.*{words}"


# By the function: its arguments after the table, the error, and words of that.
CASES = {
    ops.embedding_lookup: [
        *[(([each],), TypeError, "`ids` must be integers.*dtype") for each in (1.0, "a", True)],
        ((WEIGHTS,), TypeError, "`ids` must be integers.*ids of dtype float32"),
        ((None,), TypeError, "embedding_lookup_sparse.*type NoneType"),
        ((FLAT,), TypeError, "embedding_lookup_sparse.*type SparseTensor"),
        (([[0, 7]],), INVALID, "7"),
        *[
            (([1], each), ValueError, f"`max_norm` must be above 0.*max_norm={each}")
            for each in (0, -1.0, float("nan"), float("inf"))
        ],
        (([1], "2"), TypeError, "`max_norm` must be a number.*max_norm='2'"),
    ],
    ops.embedding_lookup_sparse: [
        *[
            ((each, None), TypeError, f"must be a Spars.* or a Ragg.*type {type(each).__name__}")
            for each in (None, [[1]], tf.constant([[1]]))
        ],
        ((WEIGHTS, None), TypeError, "`sp_ids` must be integers.*dtype float32"),
        *[
            ((each, None), ValueError, "`sp_ids` must be 2-D.*safe_embedding_lookup_sp")
            for each in (DEEP, DEEP.to_sparse(), FLAT)
        ],
        kinds(WEIGHTS.to_sparse(), IDS),
        kinds(WEIGHTS, IDS.to_sparse()),
        kinds([1.0], IDS),
        ((IDS, WEIGHTS[1:]), ValueError, "`sp_weights` must have the shape of `sp_ids`"),
        ((IDS, MOVED), INVALID, "row_splits"),
        ((PLACES, MOVED_PLACES), INVALID, "indices"),
        ((IDS, None, "max"), ValueError, "`combiner` must be one of .*combiner='max'"),
        ((IDS, None, None, 0), ValueError, "`max_norm` must be above 0.*max_norm=0"),
        ((IDS + 1, None), INVALID, "7"),
        ((IDS + 1, None, None, 1.0), INVALID, "7"),
    ],
    ops.safe_embedding_lookup_sparse: [
        (([[1]],), TypeError, "`sparse_ids` must be a SparseTensor or.*type list"),
        ((WEIGHTS,), TypeError, "`sparse_ids` must be integers.*dtype float32"),
        ((DEEP,), ValueError, "`sparse_ids` must be 2-D if it is a RaggedTensor"),
        ((FLAT,), ValueError, "`sparse_ids` must have an axis of samples and an axis of ids"),
        ((IDS, WEIGHTS.values), TypeError, "`sparse_weights` must be None or of the kind"),
        ((IDS, WEIGHTS[1:]), ValueError, "`sparse_weights` must have the shape of `sparse_ids`"),
        ((PLACES, MOVED_PLACES), INVALID, "indices"),
        ((IDS, None, "mean", 1.5), TypeError, "`default_id` must be an integer.*default_id=1.5"),
        *[
            ((IDS, None, "mean", each), ValueError, f"`default_id` must be an int64.*={each}")
            for each in (2**64, -(2**63) - 1)
        ],
        ((IDS, None, "mean", 7), INVALID, "7"),
        ((IDS, None, "max"), ValueError, "`combiner` must be one of .*combiner='max'"),
        ((IDS, None, "mean", None, -1), ValueError, "`max_norm` must be above 0.*max_norm=-1"),
    ],
}
of_names = {function.__name__: function for function in CASES}


@pytest.mark.parametrize(
    ("function", "arguments", "error", "words"),
    [(name, *case) for name, function in of_names.items() for case in CASES[function]],
)
def test_refuses_what_it_cannot_look_up(function, arguments, error, words):
    function = of_names[function]
    with pytest.raises(error, match=words):
        function(table(), *arguments)
    if error is not INVALID:  # which a dynamic table has no reason for
        with pytest.raises(error, match=words):
            function(table(None), *arguments)


@pytest.mark.parametrize("name", of_names)
def test_refuses_partitions_and_what_is_no_table(name):
    argument = "embedding_weights" if name.startswith("safe") else "params"
    arguments = ([1],) if name == "embedding_lookup" else (IDS, None)
    for params, words in [
        ([table()] * 2, r"in place of the partitions.*\['EmbeddingVariable', 'Embed"),
        *[(each, f"{type(each).__name__}$") for each in (tf.Variable(ROWS), ROWS, None)],
    ]:
        with pytest.raises(TypeError, match=f"`{argument}` must be one.*{words}"):
            of_names[name](params, *arguments)


@pytest.mark.parametrize("max_norm", [None, 100.0])
@pytest.mark.parametrize("name", ["embedding_lookup", "embedding_lookup_sparse"])
def test_tells_huge_keys_of_a_dynamic_table_apart(name, max_norm):
    keys = [2**63 - 1, -(2**63), 2**53 + 1, 2**53]
    variable = table(None, ROWS[:4], keys)
    for values in (tf.constant(keys), np.array(keys, "int64").view("uint64")):
        if name == "embedding_lookup":
            rows, expected = of_names[name](variable, values, max_norm), ROWS[:4]
        else:
            ids = tf.RaggedTensor.from_row_lengths(values, [1, 1, 0, 2])
            rows = of_names[name](variable, ids, None, "sum", max_norm)
            expected = [ROWS[0], ROWS[1], np.zeros(3), ROWS[2] + ROWS[3]]
        exactly = name == "embedding_lookup" and max_norm is None
        np.testing.assert_allclose(rows, expected, rtol=0 if exactly else 1e-5)


@pytest.mark.parametrize(
    ("name", "arguments", "count"),
    [
        ("embedding_lookup", ([[1, 2], [3, 3]], 1.0), 4),
        ("embedding_lookup_sparse", (IDS, WEIGHTS, None, None), 4),
        ("embedding_lookup_sparse", (IDS, WEIGHTS, None, 1.0), 4),
        # Of one that is below 0, and of a sample that has none, the default is read.
        ("safe_embedding_lookup_sparse", (IDS - 1, None, "mean", 4), 3 + 2),
    ],
)
def test_counts_each_id_once_in_the_tables_stats(name, arguments, count):
    variable = table(None)
    before = variable.stats()["lookups"]
    of_names[name](variable, *arguments)
    assert variable.stats()["lookups"] == before + count
