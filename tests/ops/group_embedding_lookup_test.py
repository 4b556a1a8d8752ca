import numpy as np
import pytest
import tensorflow as tf

from keras_sparse import EmbeddingVariable
from keras_sparse import ops
from pairwise import each_pair

DIMS = [1, 3, 8, 3]
RAGGED = tf.ragged.constant([[4, 1, 4], [], [0]], dtype=tf.int64)
SPARSE = tf.SparseTensor([[2, 3], [0, 1], [0, 0]], tf.constant([5, 2, 2], tf.int32), [3, 5])
BAGS = [RAGGED, SPARSE, RAGGED[::-1], SPARSE]
COMBINERS = ["sum", "mean", "sqrtn", "sum"]
# Of as many ids as the bags have.
WEIGHTS = [
    RAGGED.with_values(tf.constant([0.5, -1, 2, 3])),
    tf.SparseTensor(SPARSE.indices, tf.constant([1.0, 2, 0.25]), SPARSE.dense_shape),
    None,
    tf.SparseTensor(SPARSE.indices, tf.constant([-2.0, 1, 4]), SPARSE.dense_shape),
]


def make_tables(input_dim=9):
    tables = [EmbeddingVariable(input_dim, dim, seed=i) for i, dim in enumerate(DIMS)]
    for table in tables:
        rows = np.random.default_rng(table.output_dim).normal(size=(9, table.output_dim))
        table.import_(np.arange(9), rows.astype(np.float32))
    return tables


def values_and_grads(tables, read):
    """Outputs, and the dense gradients of a sum in which no two of their numbers count alike."""
    with tf.GradientTape() as tape:
        outputs = read()
        flat = [tf.reshape(getattr(each, "flat_values", each), (-1,)) for each in outputs]
        flat = tf.concat(flat, axis=0)
        loss = tf.reduce_sum(flat**2 * tf.range(1.0, tf.cast(tf.size(flat), tf.float32) + 1))
    grads = []
    for grad, table in zip(tape.gradient(loss, tables), tables, strict=True):
        dense = np.zeros((9, table.output_dim), np.float32)
        np.add.at(dense, np.asarray(grad.indices), np.asarray(grad.values))
        grads.append(dense)
    return [np.asarray(getattr(each, "flat_values", each)) for each in outputs], grads


def assert_all_close(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        for each, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(each, other, rtol=1e-5, atol=1e-6)


each_grouping = each_pair(
    num_per_group=[None, 1, 3, 100], input_dim=[9, None], weights=[None, WEIGHTS]
)


@each_grouping
def test_pools_as_each_table_alone(input_dim, weights, num_per_group):
    tables = make_tables(input_dim)

    def grouped():
        return ops.group_embedding_lookup_sparse(
            tables, BAGS, COMBINERS, sp_weights=weights, params_num_per_group=num_per_group
        )

    def alone():
        each = zip(tables, BAGS, weights or [None] * 4, COMBINERS, strict=True)
        return [ops.embedding_lookup_sparse(*one) for one in each]

    expected = values_and_grads(tables, alone)
    assert_all_close(values_and_grads(tables, grouped), expected)
    assert_all_close([[each.numpy() for each in tf.function(grouped)()]], expected[:1])


@each_grouping
def test_sequences_have_a_row_at_the_place_of_each_id(input_dim, weights, num_per_group):
    tables = make_tables(input_dim)

    def grouped():
        return ops.group_embedding_lookup_sparse(
            tables,
            BAGS,
            [None] * 4,
            sp_weights=weights,
            is_sequence=True,
            params_num_per_group=num_per_group,
        )

    def alone():
        outputs = []
        for table, ids, weight in zip(tables, BAGS, weights or [None] * 4, strict=True):
            dense = (
                ids.to_tensor(-1)
                if ids is not SPARSE
                else tf.sparse.to_dense(tf.sparse.reorder(ids), -1)
            )
            ones = tf.cast(dense >= 0, tf.float32)
            if weight is not None:
                is_sparse = isinstance(weight, tf.SparseTensor)
                weight = tf.sparse.reorder(weight) if is_sparse else weight
                ones = tf.sparse.to_dense(weight) if is_sparse else weight.to_tensor()
            rows = ops.embedding_lookup(table, tf.maximum(dense, 0))
            outputs.append(rows * ones[..., tf.newaxis])
        return outputs

    assert_all_close(values_and_grads(tables, grouped), values_and_grads(tables, alone))
    assert [each.shape for each in grouped()] == [(3, 3, 1), (3, 5, 3), (3, 3, 8), (3, 5, 3)]


@each_pair(num_per_group=[None, 1, 3, 100], input_dim=[9, None])
def test_reads_dense_and_ragged_ids_as_each_table_alone(input_dim, num_per_group):
    tables = make_tables(input_dim)
    ids = [[1, 2, 1], RAGGED, tf.constant([[3], [8]], tf.int32), 5]

    def grouped():
        return ops.group_embedding_lookup(tables, ids, params_num_per_group=num_per_group)

    def alone():
        return [ops.embedding_lookup(*each) for each in zip(tables, ids, strict=True)]

    assert_all_close(values_and_grads(tables, grouped), values_and_grads(tables, alone))
    assert [each.shape.as_list() for each in grouped()] == [[3, 1], [3, None, 3], [2, 1, 8], [3]]


def one_by_one(tables, **options):
    return ops.group_embedding_lookup(tables, [[1]] * 4, **options)


def pooled(tables, **options):
    return ops.group_embedding_lookup_sparse(tables, BAGS, COMBINERS, **options)


def sequences(tables, **options):
    return pooled(tables, is_sequence=True, **options)


@pytest.mark.parametrize("look_up", [one_by_one, pooled, sequences])
@pytest.mark.parametrize(("num_per_group", "num_ops"), [(None, 1), (2, 2), (3, 2), (1, 4)])
def test_costs_an_op_a_group(num_per_group, num_ops, look_up):
    tables = make_tables()
    function = tf.function(lambda: look_up(tables, params_num_per_group=num_per_group))
    operations = function.get_concrete_function().graph.get_operations()
    assert sum(each.type == "KerasSparseLookup" for each in operations) == num_ops


@pytest.mark.parametrize("look_up", [one_by_one, pooled, sequences])
def test_a_name_is_that_of_the_ops_and_changes_no_row(look_up):
    tables = make_tables()
    default = "group_embedding_lookup" + ("" if look_up is one_by_one else "_sparse")
    for name, scope in [("users", "users"), (None, default)]:
        function = tf.function(lambda name=name: look_up(tables, name=name))
        operations = function.get_concrete_function().graph.get_operations()
        (lookup,) = (each.name for each in operations if each.type == "KerasSparseLookup")
        assert lookup.startswith(f"{scope}/")
        assert_all_close([[each.numpy() for each in function()]], [look_up(tables)])


@each_pair(bad_id=[9, -1, 2**40], num_per_group=[None, 1], is_sequence=[False, True])
def test_an_id_outside_a_static_table_is_an_error_that_names_it(bad_id, num_per_group, is_sequence):
    tables = [EmbeddingVariable(9, dim, name=f"table_{dim}") for dim in (2, 3)]
    bags = [RAGGED, tf.ragged.constant([[8], [], [0, bad_id]], dtype=tf.int64)]
    look_up = tf.function(
        lambda: ops.group_embedding_lookup_sparse(
            tables,
            bags,
            ["sum", "mean"],
            is_sequence=is_sequence,
            params_num_per_group=num_per_group,
        )
    )
    message = rf"id must be in \[0, 9\) for table 'table_3'.*Received: ids\[2\] = {bad_id}"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        look_up()


def test_no_tables_give_no_rows():
    assert ops.group_embedding_lookup([], []) == []
    assert ops.group_embedding_lookup_sparse([], [], []) == []


@pytest.mark.parametrize(
    ("look_up", "arguments", "error", "words"),
    [
        ("sparse", (BAGS, ["sum"]), ValueError, "combiners"),
        ("sparse", (BAGS, "sum"), TypeError, "`combiners` must be a list"),
        ("sparse", (BAGS, ["max"] * 4), ValueError, r"`combiners\[0\]` must be one of"),
        ("sparse", ([[[1]]] * 4, COMBINERS), TypeError, r"`sp_ids\[0\]` must be a SparseTensor"),
        (
            "sparse",
            (BAGS, COMBINERS, "mod", [[1.0]] * 4),
            TypeError,
            r"`sp_weights\[0\]` must be None or",
        ),
        ("dense", ([[1]],), ValueError, "ids"),
    ],
)
def test_refuses_lists_of_other_lengths_and_kinds(look_up, arguments, error, words):
    dense, sparse = ops.group_embedding_lookup, ops.group_embedding_lookup_sparse
    with pytest.raises(error, match=words):
        (dense if look_up == "dense" else sparse)(make_tables(), *arguments)


def test_refuses_other_tables_strategies_and_groups():
    tables = make_tables()
    with pytest.raises(TypeError, match=r"`params\[1\]` must be one"):
        ops.group_embedding_lookup([tables[0], tf.zeros((2, 2))], [[1], [1]])
    for look_up in (one_by_one, pooled, sequences):
        with pytest.raises(
            ValueError, match=r"`partition_strategy` must be one of \('mod',\).*Received: .*'div'"
        ):
            look_up(tables, partition_strategy="div")
        with pytest.raises(ValueError, match="`params_num_per_group` must be above 0"):
            look_up(tables, params_num_per_group=0)
