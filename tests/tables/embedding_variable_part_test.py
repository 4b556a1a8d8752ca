"""Variables that hold parts of a table have, together, the rows of the whole table, bit for bit."""

import hypothesis
import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

import keras_sparse
from keras_sparse import EmbeddingVariable
from keras_sparse.tables import local_table
from keras_sparse.tables import native_table
from keras_sparse.tables.initial_rows import InitialRows
from keras_sparse.tables.table_part import PartSelector
from keras_sparse.tables.table_part import TablePart

NATIVE = [
    keras.initializers.RandomUniform(-2, 5, seed=3),
    keras.initializers.RandomNormal(3.0, 0.5, seed=3),
    keras.initializers.TruncatedNormal(3.0, 0.5, seed=3),
    keras.initializers.GlorotUniform(seed=3),
    keras.initializers.HeNormal(seed=3),
    keras.initializers.Constant(0.25),
]
OTHER_ROWS = InitialRows("normal", 1.0, 2.0, 11)


def countdown(shape, dtype):
    return np.arange(shape[0] * shape[1], 0, -1).reshape(shape).astype(dtype)


@st.composite
def initializers(draw, input_dim, output_dim):
    """An initializer of a table, and how many bytes of its rows are made at once."""
    if input_dim is None or draw(st.booleans()):
        return draw(st.sampled_from(NATIVE)), 1 << 20
    kinds = (
        keras.initializers.Orthogonal(seed=3),
        keras.initializers.Constant(countdown((input_dim, output_dim), "float32")),
        keras.initializers.Constant(countdown((1, output_dim), "float32")),
        countdown,
    )
    return draw(st.sampled_from(kinds)), draw(st.sampled_from([1, 40, 300, 1 << 20]))


@st.composite
def tables_in_parts(draw):
    """`(parts, initializer, chunk bytes)`: of a table cut into columns, rows, or both."""
    input_dim, output_dim = draw(st.none() | st.integers(1, 20)), draw(st.integers(1, 13))
    cuts = draw(st.sets(st.integers(1, output_dim - 1), max_size=4)) if output_dim > 1 else ()
    ends = [*sorted(cuts), output_dim]
    num_shards = draw(st.integers(1, 5))
    parts = [
        TablePart("users", input_dim, output_dim, first, end - first, shard, num_shards)
        for first, end in zip([0, *ends], ends, strict=False)
        for shard in range(num_shards)
    ]
    return parts, *draw(initializers(input_dim, output_dim))


def make(part, initializer, **kwargs):
    return EmbeddingVariable(*part.shape, initializer, part=part, **kwargs)


def rows_of(variable, ids):
    return keras_sparse.ops.lookup([variable], [tf.constant(ids, tf.int64)])[0].numpy()


def put_together(variables, ids):
    """The rows of ids of the whole table, as the parts have them."""
    part = variables[0].part
    rows = np.full((len(ids), part.output_dim), np.nan, np.float32)
    for variable in variables:
        part = variable.part
        held = np.flatnonzero(part.holds(ids))
        columns = np.arange(part.first_column, part.first_column + part.num_columns)
        rows[np.ix_(held, columns)] = rows_of(variable, ids[held])
    return rows


def train(variable, ids):
    """Leaves none of these rows as it was."""
    variable.import_(ids, np.full((len(ids), variable.output_dim), -9))


@hypothesis.settings(deadline=None, max_examples=30)
@hypothesis.given(table=tables_in_parts())
def test_parts_have_the_rows_of_the_whole_table(table):
    parts, initializer, chunk_bytes = table
    input_dim, output_dim = parts[0].input_dim, parts[0].output_dim
    ids = np.array([-(2**63), -13, -1, 0, 1, 2, 3, 2**63 - 1])
    ids = ids if input_dim is None else np.arange(input_dim)
    with pytest.MonkeyPatch.context() as patch:
        for module in (local_table, native_table):
            patch.setattr(module, "CHUNK_BYTES", chunk_bytes)
        whole = EmbeddingVariable(input_dim, output_dim, initializer)
        variables = [make(part, initializer) for part in parts]
        expected = rows_of(whole, ids)
        np.testing.assert_array_equal(put_together(variables, ids), expected)
        for variable in variables:
            train(variable, ids)
            variable.clear()
        np.testing.assert_array_equal(put_together(variables, ids), expected)


@hypothesis.settings(deadline=None, max_examples=30)
@hypothesis.given(table=tables_in_parts())
def test_parts_are_written_and_read_by_the_ids_of_the_whole_table(table):
    parts, _, _ = table
    whole = parts[0]
    ids = np.array([-(2**63), -13, -1, 0, 1, 2, 3, 2**63 - 1])
    ids = ids if whole.input_dim is None else np.arange(whole.input_dim)
    rows = np.arange(len(ids) * whole.output_dim, dtype="float32").reshape(len(ids), -1)
    for part in parts:
        variable = make(part, "zeros")
        columns = rows[:, part.first_column : part.first_column + part.num_columns]
        variable.import_(ids, columns)
        found = list(variable.export(3))
        keys = np.concatenate([ids[:0], *(keys for keys, _ in found)])
        assert sorted(keys) == list(ids[part.holds(ids)])
        for keys, records in found:
            np.testing.assert_array_equal(records, columns[np.searchsorted(ids, keys)])


@pytest.mark.parametrize("part", [TablePart("users", 5, 2, 0, 2, shard=1, num_shards=2)])
@pytest.mark.parametrize(
    ("ids", "records", "error"),
    [
        ([0, 5], np.zeros((2, 2)), tf.errors.InvalidArgumentError),  # 5 would be another rank's
        ([-1], np.zeros((1, 2)), tf.errors.InvalidArgumentError),
        ([0, 1], np.zeros((3, 2)), ValueError),
    ],
)
def test_rows_of_no_id_of_the_whole_table_are_an_error(part, ids, records, error):
    with pytest.raises(error):
        make(part, "zeros").import_(ids, records)


def hand_made(ids, shape=None):
    """A gradient of rows that no lookup has given."""
    return tf.IndexedSlices(tf.ones((len(ids), 2)), tf.constant(ids, tf.int64), shape)


@pytest.mark.parametrize("input_dim", [None, 9])
def test_a_part_refuses_ids_whose_rows_another_rank_owns(input_dim):
    variable = make(TablePart("users", input_dim, 2, 0, 2, shard=1, num_shards=3), "ones")
    optimizer = keras_sparse.optimizers.SGD(1.0)
    optimizer.build([variable])
    keys = [tf.constant([1, 4, 8], tf.int64)]
    calls = {
        "lookup": lambda: keras_sparse.ops.embedding_lookup(variable, [1, 4, 8]),
        "in a function": tf.function(lambda: keras_sparse.ops.embedding_lookup(variable, [4, 8])),
        "pooled": lambda: keras_sparse.ops.embedding_lookup_sparse(
            variable, tf.sparse.from_dense([[4, 8]]), None, combiner="sum"
        ),
        "read_rows": lambda: keras_sparse.ops.read_rows([variable], keys),
        "update": lambda: optimizer.apply([hand_made([1, 8])], [variable]),
        "update of ids of the table": lambda: optimizer.apply(
            [hand_made([1, 8], (input_dim or 2**63 - 1, 2))], [variable]
        ),
    }
    for name, call in calls.items():
        received = r"ids\[\d\] = 8, whose row rank 2 owns"
        if input_dim is not None and ("function" in name or "update" in name):
            received = r".*\[8\]" if name == "in a function" else "dense_shape="
        rule = r"of table .{1,3}embeddings.{1,3}, whose rows ranks share.*Received: "
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=rule + received):
            print(name, call())
    assert variable.num_rows == (0 if input_dim is None else 3)
    np.testing.assert_array_equal(rows_of(variable, [1, 4, 7]), 1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(keras_sparse.ops.embedding_lookup(variable, [4, 7, 4]))
    optimizer.apply([tape.gradient(loss, variable)], [variable])
    np.testing.assert_array_equal(rows_of(variable, [1, 4, 7])[:, 0], [1, -1, 0])


@pytest.mark.parametrize("out_of_range", ["error", "zero"])
def test_ids_outside_the_whole_table_are_those_of_no_rank(out_of_range):
    part = TablePart("users", 9, 2, 0, 2, shard=1, num_shards=3)
    variable = make(part, "ones", out_of_range=out_of_range)
    ids = [1, -2, -1, 9, 10]
    if out_of_range == "zero":
        np.testing.assert_array_equal(rows_of(variable, ids)[:, 0], [1, 0, 0, 0, 0])
        return
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"in \[0, 9\).*ids\[1\] = -2"):
        rows_of(variable, ids)


def test_a_saved_part_with_rows_of_another_rank_is_refused():
    whole = TablePart("users", None, 2, 0, 2)
    selector = PartSelector(whole, TablePart("users", None, 2, 0, 2, shard=1, num_shards=3))
    assert selector.keys(np.array([1, -2]))[0].tolist() == [1, -2]
    with pytest.raises(ValueError, match=r"Received: key 3 in shard 1 of 3"):
        selector.keys(np.array([1, 3]))


def test_a_part_has_the_rows_of_the_ids_that_its_rank_owns():
    """Of ids below its number of rows, too: those of the table, not its own numbers of them."""
    part = TablePart("users", 9, 2, 0, 2, shard=1, num_shards=3)
    variable = make(part, keras.initializers.Constant(countdown((9, 2), "float32")))
    keys = [tf.constant([1, 7], tf.int64)]
    np.testing.assert_array_equal(rows_of(variable, [1, 7])[:, 0], [16, 4])
    np.testing.assert_array_equal(keras_sparse.ops.read_rows([variable], keys)[1][0][:, 0], [16, 4])
    np.testing.assert_array_equal(variable.find([0, 1, 7]).rows[:, 0], [0, 16, 4])


@hypothesis.settings(deadline=None, max_examples=30)
@hypothesis.given(table=tables_in_parts())
def test_parts_take_other_initial_rows_of_the_whole_table(table):
    parts, _, _ = table
    input_dim, output_dim = parts[0].input_dim, parts[0].output_dim
    ids = np.array([-4, 0, 99]) if input_dim is None else np.arange(input_dim)
    variables = [make(part, "zeros") for part in parts]
    for variable in [whole := EmbeddingVariable(input_dim, output_dim, "zeros"), *variables]:
        variable.table.set_initial_rows(OTHER_ROWS)
        variable.clear()
        assert variable.table.initial_rows == OTHER_ROWS
    np.testing.assert_array_equal(put_together(variables, ids), rows_of(whole, ids))


def test_the_first_gradient_makes_the_row_of_the_whole_table():
    whole = EmbeddingVariable(None, 6, seed=5)
    part = make(TablePart("words", None, 6, 1, 3, shard=1, num_shards=2), "uniform", seed=5)
    for variable in (whole, part):
        optimizer = keras_sparse.optimizers.SGD(0.5)
        optimizer.build([variable])
        grads = tf.IndexedSlices(tf.ones((1, variable.output_dim)), tf.constant([-5], tf.int64))
        optimizer.apply([grads], [variable])
    assert part.num_rows == 1
    np.testing.assert_array_equal(rows_of(part, [-5]), rows_of(whole, [-5])[:, 1:4])


@pytest.mark.parametrize("initializer", ["uniform", countdown])
def test_a_part_may_have_no_rows(initializer):
    table = make(TablePart("users", 2, 6, 1, 3, shard=3, num_shards=4), initializer)
    optimizer = keras_sparse.optimizers.Adam()
    optimizer.build([table])
    with tf.GradientTape() as tape:
        rows = keras_sparse.ops.lookup([table], [tf.zeros(0, tf.int64)])[0]
        loss = tf.reduce_sum(rows)
    assert rows.shape == (0, 3)
    grads = tape.gradient(loss, table)
    np.testing.assert_array_equal(grads.dense_shape, [0, 3])
    optimizer.apply([grads], [table])
    table.clear()
    table.assign(table.numpy())
    table.import_(*[np.zeros(0, np.int64), np.zeros((0, 3))])
    assert (table.is_dynamic, table.num_rows, table.shape) == (False, 0, (0, 3))
    assert table.numpy().shape == (0, 3)
    assert list(table.export()) == []
    assert table.stats()["rows"] == 0
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"ids\[0\] = 0"):
        rows_of(table, [0])


def test_a_variable_has_the_shape_of_its_part():
    part = TablePart("users", 10, 8, 2, 3, shard=1, num_shards=4)
    with pytest.raises(ValueError, match=r"\(3, 3\). Received: input_dim=10, output_dim=8 with"):
        EmbeddingVariable(10, 8, part=part)
    with pytest.raises(TypeError, match=r"must be a `TablePart`\. Received: part='users'"):
        EmbeddingVariable(10, 8, part="users")
    with pytest.raises(ValueError, match="`input_dim` must be above 0"):
        EmbeddingVariable(0, 2)  # which only a part may have


def test_a_part_is_not_saved_by_itself():
    table = make(TablePart("words", None, 8, 0, 8, shard=1, num_shards=4), "uniform")
    with pytest.raises(ValueError, match=r"saved by its layer.*TablePart.*shard=1"):
        keras_sparse.saving.save_table(table, {})


@hypothesis.settings(max_examples=20, deadline=None, derandomize=True, database=None)
@hypothesis.given(table=tables_in_parts())
def test_parts_load_what_is_theirs_of_a_saved_table(table):
    parts, _, _ = table
    whole = EmbeddingVariable(parts[0].input_dim, parts[0].output_dim, seed=7)
    variables = [make(part, "zeros", seed=1) for part in parts]
    for variable in (whole, *variables):
        keras_sparse.optimizers.Adagrad(0.1).build([variable])
    ids = np.arange(1 if parts[0].input_dim == 1 else 2)
    width = whole.record_floats
    whole.import_(ids, np.arange(len(ids) * width, dtype="float32").reshape(-1, width))
    store = {}
    keras_sparse.saving.save_table(whole, store)
    for variable in variables:
        keras_sparse.saving.load_table(variable, store)
    np.testing.assert_array_equal(put_together(variables, ids), rows_of(whole, ids))


def test_a_part_that_is_the_whole_table_is_saved_as_one():
    whole = make(TablePart("users", 4, 2, 0, 2), "uniform")
    stores = {}, {}
    for variable, store in zip((whole, EmbeddingVariable(4, 2)), stores, strict=True):
        variable.assign(np.ones((4, 2)))
        variable.table.set_initial_rows(OTHER_ROWS)
        keras_sparse.saving.save_table(variable, store)
    np.testing.assert_equal(*stores)


def test_a_part_is_no_array_of_its_table():
    for part in (TablePart("t", 9, 4, 2, 2), TablePart("t", 9, 4, 0, 4, shard=1, num_shards=3)):
        variable = make(part, "zeros")
        with pytest.raises(
            ValueError, match=r"part of a table must not be read as an array.*of its"
        ):
            np.asarray(variable)
    whole = make(TablePart("t", 9, 4, 0, 4), "zeros")
    np.testing.assert_array_equal(np.asarray(whole), np.zeros((9, 4)))
