import copy
import dataclasses
import inspect

import hypothesis
import keras
import numpy as np
import pytest
from hypothesis import strategies as st

import keras_sparse
from keras_sparse.tables.initial_rows import InitialRows
from keras_sparse.tables.table_config import LAYER_OPTIONS
from keras_sparse.tables.table_config import TableConfig
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


OPTIONS = {
    "input_dim": None,
    "output_dim": 3,
    "seed": 5,
    "storage": keras_sparse.StorageOption(storage_size=["1MB"]),
    "admission": keras_sparse.CounterFilter(2),
    "eviction": keras_sparse.GlobalStepEvict(4),
    "max_rows": 6,
}
STATIC = {"input_dim": 9, "output_dim": 3, "seed": 5, "out_of_range": "zero"}


def options_of(variable):
    return {name: getattr(variable.table.config, name) for name in LAYER_OPTIONS}


def arguments_of(function):
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in parameters}


def test_the_fields_are_the_arguments_of_a_variable():
    arguments = arguments_of(keras_sparse.EmbeddingVariable)
    fields = {each.name: each.default for each in dataclasses.fields(TableConfig)}
    assert list(fields) == list(arguments)
    assert [*fields.values()][2:] == [*arguments.values()][2:]


def test_a_layer_has_all_fields_but_those_it_has_of_keras():
    fields = {each.name for each in dataclasses.fields(TableConfig)}
    assert fields == {*LAYER_OPTIONS, "initializer", "trainable", "name", "part"}
    arguments = arguments_of(keras_sparse.layers.Embedding)
    assert arguments.keys() > {*LAYER_OPTIONS, "embeddings_initializer"}


@pytest.mark.parametrize("options", [OPTIONS, STATIC], ids=["dynamic", "static"])
def test_an_option_of_a_layer_reaches_its_table_and_a_copy_of_it(options):
    layer = keras_sparse.layers.Embedding(**options, embeddings_initializer="ones")
    layer.build()
    assert options_of(layer.embeddings).items() >= options.items()
    assert isinstance(layer.embeddings.table.config.initializer, keras.initializers.Ones)
    copied = copy.deepcopy(layer.embeddings)
    expected = {**options_of(layer.embeddings), "seed": None}  # its rows begin as those copied
    assert options_of(copied) == expected
    table = keras_sparse.layers.Embedding(**options, name="users")
    distributed = keras_sparse.layers.DistributedEmbedding([table])
    distributed.build()
    (variable,) = distributed.tables
    assert options_of(variable).items() >= options.items()
    assert variable.name == "users"


def test_a_part_has_its_shape_and_the_options_of_the_table():
    part = TablePart("users", 9, 3, first_column=1, num_columns=2, shard=1, num_shards=2)
    whole = TableConfig(**STATIC, name="users", trainable=False)
    assert whole.of_part(part) == dataclasses.replace(whole, input_dim=4, output_dim=2, part=part)
    variable = keras_sparse.EmbeddingVariable(**vars(whole.of_part(part)))
    assert (variable.input_dim, variable.output_dim, variable.part) == (4, 2, part)
    assert not variable.trainable
