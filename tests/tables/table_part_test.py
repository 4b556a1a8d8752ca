import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from keras_sparse.tables.initial_rows import InitialRows
from keras_sparse.tables.table_part import TablePart

SHARDS = st.integers(1, 7).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.just(n)))


@st.composite
def static_parts(draw):
    input_dim, output_dim = draw(st.integers(1, 30)), draw(st.integers(1, 9))
    first = draw(st.integers(0, output_dim - 1))
    num_columns = draw(st.integers(1, output_dim - first))
    return TablePart("users", input_dim, output_dim, first, num_columns, *draw(SHARDS))


@hypothesis.given(static_parts())
def test_its_rows_are_those_of_the_ids_it_holds(part):
    ids = np.arange(part.input_dim)
    held = ids[part.holds(ids)]
    assert part.num_rows == len(held)
    np.testing.assert_array_equal(part.local_ids(held), np.arange(part.num_rows))
    np.testing.assert_array_equal(part.global_ids(np.arange(part.num_rows)), held)


@hypothesis.given(static_parts(), st.integers(1, 10))
def test_cuts_its_rows_out_of_the_chunks_of_the_whole_table(part, chunk_rows):
    ids = np.arange(part.input_dim)
    whole = np.arange(part.input_dim * part.output_dim).reshape(part.input_dim, part.output_dim)
    end = part.first_column + part.num_columns
    next_local_id = 0
    for first_id in range(0, part.input_dim, chunk_rows):
        local_id, rows = part.cut(first_id, whole[first_id : first_id + chunk_rows])
        assert local_id == next_local_id
        next_ids = part.global_ids(np.arange(local_id, local_id + len(rows)))
        np.testing.assert_array_equal(rows, whole[next_ids, part.first_column : end])
        next_local_id += len(rows)
    assert next_local_id == len(ids[part.holds(ids)])


def test_is_worked_out_by_hand():
    part = TablePart("users", 10, 8, first_column=2, num_columns=3, shard=3, num_shards=4)
    assert (part.shape, part.is_whole, part.is_dynamic) == ((2, 3), False, False)
    assert [part.global_ids(local_id) for local_id in (0, 1)] == [3, 7]
    assert [part.local_ids(i) for i in (3, 7)] == [0, 1]


def test_a_dynamic_table_keeps_its_keys():
    part = TablePart("words", None, 8, 0, 8, shard=1, num_shards=4)
    keys = np.array([-(2**63), -7, -3, -1, 0, 1, 2**63 - 3])
    assert (part.shape, part.is_dynamic) == ((None, 8), True)
    np.testing.assert_array_equal(keys[part.holds(keys)], [-7, -3, 1, 2**63 - 3])
    np.testing.assert_array_equal(part.local_ids(keys), keys)
    np.testing.assert_array_equal(part.global_ids(keys), keys)


def test_all_columns_of_all_rows_are_the_whole_table():
    assert TablePart("users", 10, 8, 0, 8).is_whole
    assert TablePart("words", None, 8, 0, 8).is_whole
    assert not TablePart("users", 10, 8, 1, 7).is_whole
    assert not TablePart("users", 10, 8, 0, 7).is_whole
    assert not TablePart("users", 10, 8, 0, 8, num_shards=2).is_whole


def test_says_what_its_initial_rows_are_made_from():
    whole = InitialRows("uniform", -1.0, 1.0, 5)
    part = TablePart("users", 10, 8, 2, 3, shard=1, num_shards=4)
    assert part.initial_rows(whole) == InitialRows("uniform", -1.0, 1.0, 5, 2, 4, 1)
    part = TablePart("words", None, 8, 2, 3, shard=1, num_shards=4)
    assert part.initial_rows(whole) == InitialRows("uniform", -1.0, 1.0, 5, 2, 1, 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_columns": 0}, "`num_columns` must be above 0"),
        ({"first_column": -1}, "`first_column` must not be below 0"),
        ({"first_column": 2, "num_columns": 7}, "first_column=2, num_columns=7 of output_dim=8"),
        ({"num_shards": 0}, "`num_shards` must be above 0"),
        ({"shard": -1}, "`shard` must not be below 0"),
        ({"shard": 2, "num_shards": 2}, r"must be in \[0, 2\). Received: shard=2"),
    ],
)
def test_refuses_what_is_no_part(options, words):
    with pytest.raises(ValueError, match=words):
        TablePart("users", 10, 8, **{"first_column": 0, "num_columns": 8, **options})
